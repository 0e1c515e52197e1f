"""One call as it came in: the wrappers taken off, what they said kept.

    invokeWithLayer(229, initConnection(api_id, ..., invokeAfterMsg(msg_id, messages.sendMessage(...))))

Wrappers may stand in any order and be packed at any depth; the reader bounds both.

*Spec: Calling methods*
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any, Final

from telesrv import tl
from telesrv.domain.users import ClientInfo
from telesrv.tl import functions, mt
from telesrv.tl.errors import ProtocolError, UnknownConstructor
from telesrv.tl.gzip import GZIP_PACKED, inflate
from telesrv.tl.limits import DEFAULT_LIMITS, Budget
from telesrv.tl.reader import read_string
from telesrv.tl.schema import Variant, schema

MAX_CLIENT_TEXT: Final = 128
"""Longer names of devices and systems are cut: they are shown in a list, and kept."""

_ORDERED: Final = frozenset(
    ("messages.sendMessage", "messages.sendMedia", "messages.sendMultiMedia", "messages.forwardMessages")
)

_QUERY: Final = "!X"
"""The type of the last field of every wrapper: any call."""
_CODES: Final = {"#": "<I", "int": "<i", "long": "<q"}
_OF_A_CLIENT: Final = tuple(field.name for field in fields(ClientInfo))
"""What a ClientInfo takes from initConnection, under the same names."""

_READING: Final = ("get", "check", "search", "resolve")
"""How the names of methods begin that change nothing."""
_REPEATABLE: Final = frozenset(
    {
        "account.updateStatus",
        "messages.readHistory",
        "messages.receivedMessages",
        "messages.sendMessage",
        "messages.setTyping",
    }
)


@dataclass(slots=True)
class Call:
    """A parsed call: *method* is None exactly when *error* says why it cannot run."""

    method: object | None
    name: str
    """The TL name, or the hexadecimal id of a method that no known layer has."""
    error: mt.RpcError | None = None
    layer: int | None = None
    """Of invokeWithLayer, when the call was in one."""
    client: ClientInfo | None = None
    """Of initConnection, when the call was in one."""
    after: tuple[int, ...] = ()
    """msg_ids whose calls must have ended before this one starts."""
    without_updates: bool = False
    """The session wants no updates."""
    msg_id: int = 0
    """Set by the gateway."""

    @property
    def ordered(self) -> bool:
        """Tells whether the call must end after those of its kind that came before it in the session."""
        return self.name in _ORDERED

    @property
    def repeatable(self) -> bool:
        """Tells whether the call may be executed twice: it only reads, says again what already holds, or is
        one outcome for ever by its random_id.
        """
        verb = self.name.rpartition(".")[2]
        return self.method is None or verb.startswith(_READING) or self.name in _REPEATABLE


def parse(body: bytes | memoryview) -> Call:
    """Returns the call in *body*. It never raises for what a client sent: the call then holds its error.

    Args:
        body: one TL function, boxed, nothing after it.

    *Spec: Calling methods*
    """
    try:
        method = tl.read(body)
    except UnknownConstructor as error:
        return _unknown(bytes(body), error.constructor_id & 0xFFFFFFFF)
    except ProtocolError:
        layer, client, method_id = _outer_wrappers(bytes(body))
        return Call(None, _name(method_id), _error("INPUT_FETCH_ERROR"), layer=layer, client=client)
    return _unwrap(method)


def _unwrap(method: object) -> Call:
    call = Call(None, "")
    while True:
        if isinstance(method, functions.InvokeWithLayer):
            call.layer = method.layer
        elif isinstance(method, functions.InitConnection):
            call.client = client_info(method)
        elif isinstance(method, functions.InvokeAfterMsg):
            call.after = (*call.after, method.msg_id)
        elif isinstance(method, functions.InvokeAfterMsgs):
            call.after = (*call.after, *method.msg_ids)
        elif isinstance(method, functions.InvokeWithoutUpdates):
            call.without_updates = True
        elif isinstance(method, functions.InvokeWithTakeout):
            call.name, call.error = "invokeWithTakeout", _error("TAKEOUT_INVALID")
            return call
        elif isinstance(method, functions.InvokeWithBusinessConnection):
            call.name, call.error = "invokeWithBusinessConnection", _error("CONNECTION_ID_INVALID")
            return call
        elif not isinstance(method, _TRANSPARENT):
            break
        method = method.query
    call.name = str(getattr(method, "CONSTRUCTOR_NAME", ""))
    if not hasattr(method, "RESULT"):
        call.error = _error("INPUT_METHOD_INVALID")
        return call
    call.method = method
    return call


_TRANSPARENT: Final = (
    functions.InvokeWithMessagesRange,
    functions.InvokeWithGooglePlayIntegrity,
    functions.InvokeWithApnsSecret,
    functions.InvokeWithReCaptcha,
)
"""Wrappers whose argument means nothing to this server."""


def client_info(init: functions.InitConnection) -> ClientInfo:
    """Returns what the client says of itself, each text cut and without control characters."""
    return ClientInfo(
        api_id=init.api_id,
        device_model=_text(init.device_model),
        system_version=_text(init.system_version),
        app_version=_text(init.app_version),
        system_lang_code=_text(init.system_lang_code),
        lang_code=_text(init.lang_code),
    )


def _text(value: str) -> str:
    return "".join(filter(str.isprintable, value[: 4 * MAX_CLIENT_TEXT]))[:MAX_CLIENT_TEXT]


def _error(type: str) -> mt.RpcError:
    return mt.RpcError(error_code=400, error_message=type)


def _name(method_id: int | None) -> str:
    if method_id is None:
        return "unreadable"
    return tl.name_of(method_id) or f"{method_id:08x}"


def _unknown(body: bytes, constructor_id: int) -> Call:
    layer, client, method_id = _outer_wrappers(body)
    if method_id == constructor_id:
        error = _error(f"INPUT_METHOD_INVALID_{constructor_id}")
    else:
        error = _error(f"INPUT_CONSTRUCTOR_INVALID_{constructor_id}")
    return Call(None, _name(method_id), error, layer=layer, client=client)


def _outer_wrappers(body: bytes) -> tuple[int | None, ClientInfo | None, int | None]:
    """Returns the layer, the client and the method's id of a call that cannot be read as a whole.

    A client newer than this server may use what is not known here; what the wrappers say, and which method
    it was that was called, must not be lost with it. The id is None when a wrapper itself cannot be read.
    """
    layer: int | None = None
    client: ClientInfo | None = None
    offset, inflated = 0, DEFAULT_LIMITS.inflated_bytes
    try:
        for _ in range(DEFAULT_LIMITS.depth):
            (constructor_id,) = struct.unpack_from("<I", body, offset)
            offset += 4
            if constructor_id == GZIP_PACKED:
                packed, _ = read_string(body, offset, Budget())
                body, offset = inflate(packed, inflated), 0
                inflated -= len(body)
                continue
            variant = schema().by_id.get(constructor_id)
            if variant is None or not variant.fields or variant.fields[-1].type != _QUERY:
                return layer, client, constructor_id
            said, offset = _arguments(body, offset, variant)
            if variant.name == "invokeWithLayer":
                layer = said["layer"]
            elif variant.name == "initConnection":
                client = ClientInfo(**{name: said[name] for name in _OF_A_CLIENT})
    except (struct.error, IndexError, ProtocolError, ValueError):
        pass
    return layer, client, None


def _arguments(body: bytes, offset: int, wrapper: Variant) -> tuple[dict[str, Any], int]:
    """Returns what a wrapper says, by name, and where the call in it begins; boxed values are passed over."""
    said: dict[str, Any] = {}
    for field in wrapper.fields[:-1]:
        if field.optional and not said[field.flags] >> field.bit & 1:
            continue
        code = _CODES.get(field.type)
        if code is not None:
            (said[field.name],) = struct.unpack_from(code, body, offset)
            offset += struct.calcsize(code)
        elif field.type == "string":
            said[field.name], offset = _string(body, offset)
        elif field.type == "Vector<long>":
            _, count = struct.unpack_from("<II", body, offset)
            offset += 8 + 8 * count
        else:
            _, offset = tl.read_prefix(body, offset)
    return said, offset


def _string(body: bytes, offset: int) -> tuple[str, int]:
    """Returns a TL string and where it ends, padding included."""
    length = body[offset] if offset < len(body) else 0
    start = offset + 1
    if length == 254:
        length = int.from_bytes(body[offset + 1 : offset + 4], "little")
        start = offset + 4
    end = start + length
    if end > len(body):
        raise ValueError("the string is cut off")
    return _text(body[start:end].decode(errors="replace")), end + -end % 4
