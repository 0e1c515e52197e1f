"""Wrappers, unknown methods and garbage."""

from __future__ import annotations

import gzip
import struct

from hypothesis import given
from hypothesis import strategies as st

from telesrv import tl
from telesrv.rpc.call import MAX_CLIENT_TEXT, parse
from telesrv.tl import functions, types

GET_CONFIG = functions.help.GetConfig()


def init(query: object, **fields: object) -> functions.InitConnection:
    texts = {
        "device_model": "Phone",
        "system_version": "1",
        "app_version": "2.0",
        "system_lang_code": "en",
        "lang_pack": "",
        "lang_code": "de",
    } | fields
    return functions.InitConnection(api_id=17, query=query, **texts)  # type: ignore[arg-type]


def test_every_wrapper_is_taken_off_and_heard() -> None:
    inner = functions.InvokeAfterMsgs(
        msg_ids=[8, 12], query=functions.InvokeAfterMsg(msg_id=4, query=GET_CONFIG)
    )
    call = parse(
        tl.write(
            functions.InvokeWithLayer(layer=158, query=init(functions.InvokeWithoutUpdates(query=inner)))
        )
    )
    assert (call.name, call.layer, call.after, call.without_updates) == (
        "help.getConfig",
        158,
        (8, 12, 4),
        True,
    )
    assert call.method == GET_CONFIG
    assert call.client is not None
    assert (call.client.api_id, call.client.device_model, call.client.lang_code) == (17, "Phone", "de")
    assert not call.ordered


def test_a_send_is_ordered() -> None:
    call = parse(
        tl.write(functions.messages.SendMessage(peer=types.InputPeerSelf(), message="x", random_id=1))
    )
    assert call.ordered


def test_what_a_client_says_of_itself_is_cut_and_cleaned() -> None:
    call = parse(tl.write(init(GET_CONFIG, device_model="a\0\nb" + "x" * 1000)))
    assert call.client is not None
    assert call.client.device_model == "ab" + "x" * (MAX_CLIENT_TEXT - 2)


def test_a_packed_call_is_read() -> None:
    packed = struct.pack("<I", 0x3072CFA1) + tl.write_bytes(gzip.compress(tl.write(GET_CONFIG)))
    marker = tl.write(GET_CONFIG)
    body = tl.write(functions.InvokeWithLayer(layer=200, query=init(GET_CONFIG)))
    assert body.endswith(marker)
    call = parse(body[: -len(marker)] + packed)
    assert (call.name, call.layer, call.error) == ("help.getConfig", 200, None)


def test_an_unknown_method_keeps_what_its_wrappers_said() -> None:
    marker = tl.write(GET_CONFIG)
    body = tl.write(functions.InvokeWithLayer(layer=300, query=init(GET_CONFIG, lang_pack="x" * 300)))
    call = parse(body[: -len(marker)] + struct.pack("<II", 0xDEADBEEF, 5))
    assert call.method is None
    assert call.error is not None
    assert (call.error.error_code, call.error.error_message) == (400, "INPUT_METHOD_INVALID_3735928559")
    assert (call.layer, call.name) == (300, "deadbeef")
    assert call.client is not None
    assert (call.client.api_id, call.client.app_version, call.client.lang_code) == (17, "2.0", "de")


def test_an_unknown_argument_is_told_apart_from_an_unknown_method() -> None:
    body = tl.write(functions.users.GetFullUser(id=types.InputUserSelf()))
    call = parse(body[:4] + struct.pack("<I", 0xDEADBEEF))
    assert call.error is not None
    assert call.error.error_message == "INPUT_CONSTRUCTOR_INVALID_3735928559"
    assert call.name == "users.getFullUser"


def test_a_constructor_is_no_method() -> None:
    call = parse(tl.write(types.InputPeerSelf()))
    assert call.method is None
    assert call.error is not None
    assert call.error.error_code == 400


def test_wrappers_for_what_is_not_here_are_refused_by_name() -> None:
    takeout = parse(tl.write(functions.InvokeWithTakeout(takeout_id=1, query=GET_CONFIG)))
    business = parse(tl.write(functions.InvokeWithBusinessConnection(connection_id="x", query=GET_CONFIG)))
    assert takeout.error is not None and takeout.error.error_message == "TAKEOUT_INVALID"
    assert business.error is not None and business.error.error_message == "CONNECTION_ID_INVALID"


@given(st.binary(max_size=200))
def test_garbage_is_an_error_of_the_call(body: bytes) -> None:
    call = parse(body)
    assert (call.method is None) == (call.error is not None)


@given(st.data())
def test_a_damaged_call_never_raises(data: st.DataObject) -> None:
    body = bytearray(tl.write(functions.InvokeWithLayer(layer=158, query=init(GET_CONFIG))))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    parse(bytes(body[: data.draw(st.integers(0, len(body)))]))
