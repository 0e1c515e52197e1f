"""Wrappers, unknown methods and garbage."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telesrv import tl
from telesrv.rpc.call import MAX_CLIENT_TEXT, parse
from telesrv.tl import functions, types
from telesrv.tl.gzip import GZIP_PACKED
from telesrv.tl.schema import FUNCTION, schema

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


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "initConnection": init,
    "invokeAfterMsg": lambda query: functions.InvokeAfterMsg(msg_id=4, query=query),
    "invokeAfterMsgs": lambda query: functions.InvokeAfterMsgs(msg_ids=[4, 8], query=query),
    "invokeWithApnsSecret": lambda query: functions.InvokeWithApnsSecret(nonce="n", secret="s", query=query),
    "invokeWithBusinessConnection": lambda query: functions.InvokeWithBusinessConnection(
        connection_id="c", query=query
    ),
    "invokeWithGooglePlayIntegrity": lambda query: functions.InvokeWithGooglePlayIntegrity(
        nonce="n", token="t" * 300, query=query
    ),
    "invokeWithLayer": lambda query: functions.InvokeWithLayer(layer=300, query=query),
    "invokeWithMessagesRange": lambda query: functions.InvokeWithMessagesRange(
        range=types.MessageRange(min_id=1, max_id=9), query=query
    ),
    "invokeWithReCaptcha": lambda query: functions.InvokeWithReCaptcha(token="t", query=query),
    "invokeWithTakeout": lambda query: functions.InvokeWithTakeout(takeout_id=1, query=query),
    "invokeWithoutUpdates": lambda query: functions.InvokeWithoutUpdates(query=query),
}
GET_SELF = functions.users.GetFullUser(id=types.InputUserSelf())
UNKNOWN = struct.pack("<I", 0xDEADBEEF)


def test_these_are_all_wrappers() -> None:
    methods = {name: variants for (kind, name), variants in schema().by_name.items() if kind == FUNCTION}
    wrappers = {name for name, variants in methods.items() if "query:!X" in variants[-1].field_text}
    assert wrappers == WRAPPERS.keys()


@given(st.lists(st.sampled_from(sorted(WRAPPERS)), max_size=6), st.booleans())
def test_what_cannot_be_read_has_its_name_in_all_wrappers(names: list[str], packed: bool) -> None:
    query: Any = GET_SELF
    for name in names:
        query = WRAPPERS[name](query)
    whole, inner = tl.write(query), tl.write(GET_SELF)
    outside = whole.removesuffix(inner)

    def read(damaged: bytes) -> tuple[str, str]:
        if packed:
            damaged = struct.pack("<I", GZIP_PACKED) + tl.write_bytes(gzip.compress(damaged))
        call = parse(outside + damaged)
        assert call.error is not None
        assert call.layer == (300 if "invokeWithLayer" in names else None)
        assert (call.client is not None) == ("initConnection" in names)
        assert call.client is None or (call.client.app_version, call.client.lang_code) == ("2.0", "de")
        return call.name, call.error.error_message

    assert read(inner[:4] + UNKNOWN) == ("users.getFullUser", "INPUT_CONSTRUCTOR_INVALID_3735928559")
    assert read(UNKNOWN + inner[4:]) == ("deadbeef", "INPUT_METHOD_INVALID_3735928559")
    assert read(inner[:6]) == ("users.getFullUser", "INPUT_FETCH_ERROR")


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
