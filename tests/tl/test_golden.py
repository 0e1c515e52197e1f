"""Bytes that are known from elsewhere."""

from __future__ import annotations

import pytest

from telesrv.tl import functions, mt, name_of, read, read_prefix, read_result, types, write, write_result
from telesrv.tl.schema import schema
from telesrv.tl.writer import supported_layer, write_bytes

# Of the public sample of an authorization key's creation.
RES_PQ = bytes.fromhex(
    "632416053e0549828cca27e966b301a48fece2fca5cf4d33f4a11ea877ba4aa5739073300817ed48941a08f981000000"
    "15c4b51c01000000216be86c022bb4c3"
)


def test_res_pq() -> None:
    value = read(RES_PQ)
    assert value == mt.ResPQ(
        nonce=bytes.fromhex("3e0549828cca27e966b301a48fece2fc"),
        server_nonce=bytes.fromhex("a5cf4d33f4a11ea877ba4aa573907330"),
        pq=bytes.fromhex("17ed48941a08f981"),
        server_public_key_fingerprints=[0xC3B42B026CE86B21 - (1 << 64)],
    )
    assert write(value) == RES_PQ


def test_future_salts_are_bare() -> None:
    salts = [mt.FutureSalt(valid_since=1, valid_until=2, salt=3)] * 2
    data = write(mt.FutureSalts(req_msg_id=5, now=6, salts=salts))
    assert (
        data.hex()
        == "950850ae"
        + "0500000000000000"
        + "06000000"
        + "02000000"
        + ("01000000" + "02000000" + "0300000000000000") * 2
    )
    assert read(data).salts == salts


def test_state_info_is_bytes() -> None:
    info = mt.MsgsStateInfo(req_msg_id=1, info=b"\x04\xff\x80")
    assert read(write(info)) == info


@pytest.mark.parametrize(
    ("length", "head"),
    [(0, "00"), (1, "01"), (253, "fd"), (254, "fefe0000"), (255, "feff0000"), (65536, "fe000001")],
)
def test_string_lengths(length: int, head: str) -> None:
    data = write_bytes(b"x" * length)
    assert data.startswith(bytes.fromhex(head))
    assert len(data) % 4 == 0
    assert len(data) - len(bytes.fromhex(head)) - length < 4
    call = functions.messages.CheckChatInvite(hash="x" * length)
    assert write(call)[4:] == data
    assert read(write(call)) == call


def test_a_short_string_in_long_form_is_read() -> None:
    call = write(functions.messages.CheckChatInvite(hash=""))
    assert read(call[:4] + b"\xfe\x03\x00\x00abc\x00").hash == "abc"


def test_bool_and_vectors_as_answers() -> None:
    assert write_result(True, "Bool").hex() == "b5757299"
    assert write_result(False, "Bool").hex() == "379779bc"
    assert read(write(True)) is True
    assert read(write(False)) is False
    assert write_result([1, -1], "Vector<int>").hex() == "15c4b51c" + "02000000" + "01000000" + "ffffffff"
    for value, type_ in (
        ([1 << 62], "Vector<long>"),
        (["a", ""], "Vector<string>"),
        ([], "Vector<User>"),
        ([types.UserEmpty(id=7)], "Vector<User>"),
        (types.PeerUser(user_id=1), "Peer"),
        (True, "Bool"),
    ):
        assert read_result(write_result(value, type_), type_) == value


def test_wrapped_call_of_an_old_layer() -> None:
    query = functions.InitConnection(
        api_id=1,
        device_model="d",
        system_version="s",
        app_version="a",
        system_lang_code="en",
        lang_pack="",
        lang_code="en",
        query=functions.help.GetConfig(),
    )
    call = functions.InvokeWithLayer(layer=158, query=query)
    assert read(write(call, 158)) == call
    assert read_prefix(b"xx" + write(call) + b"yy", 2) == (call, 2 + len(write(call)))
    assert read(memoryview(write(call))) == call


def test_a_reply_of_layer_152_is_read_as_the_newest() -> None:
    # messages.sendMessage#0d9d75a4 has reply_to_msg_id; the class has reply_to.
    old = schema().at("f", "messages.sendMessage", 152)
    assert old is not None
    data = old.id.to_bytes(4, "little") + bytes.fromhex("01000000") + write(types.InputPeerSelf())
    data += (77).to_bytes(4, "little") + write_bytes(b"hi") + (5).to_bytes(8, "little")
    assert read(data) == functions.messages.SendMessage(
        peer=types.InputPeerSelf(),
        reply_to=types.InputReplyToMessage(reply_to_msg_id=77),
        message="hi",
        random_id=5,
    )


def test_names_of_ids() -> None:
    assert name_of(0x05162463) == "resPQ"
    assert name_of(schema().at("t", "user", 152).id) == "user"  # type: ignore[union-attr]
    assert name_of(0x12345678) is None


@pytest.mark.parametrize(
    ("layer", "known"), [(1, 152), (152, 152), (153, 152), (192, 192), (195, 193), (999, 229)]
)
def test_supported_layer(layer: int, known: int) -> None:
    assert supported_layer(layer) == known


def test_repr_shows_what_is_set() -> None:
    assert repr(types.PeerUser(user_id=1)) == "types.PeerUser(user_id=1)"
    assert repr(functions.help.GetConfig()) == "functions.help.GetConfig()"
    assert types.PeerUser(user_id=1) != types.PeerChat(chat_id=1)
    with pytest.raises(TypeError):
        hash(types.PeerUser(user_id=1))
