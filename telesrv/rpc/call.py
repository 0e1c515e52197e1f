"""One call as it came in: the wrappers taken off, what they said kept.

    invokeWithLayer(229, initConnection(api_id, ..., invokeAfterMsg(msg_id, messages.sendMessage(...))))

Wrappers may stand in any order and be packed at any depth; the reader bounds both.

Spec: Calling methods.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from telesrv import tl
from telesrv.domain.users import ClientInfo
from telesrv.tl import functions, mt
from telesrv.tl.errors import ProtocolError, UnknownConstructor

MAX_CLIENT_TEXT: Final = 128
"""Longer names of devices and systems are cut: they are shown in a list, and kept."""

_ORDERED: Final = frozenset(
    ("messages.sendMessage", "messages.sendMedia", "messages.sendMultiMedia", "messages.forwardMessages")
)

_INVOKE_WITH_LAYER: Final = 0xDA9B0D0D
_INIT_CONNECTION: Final = 0xC1CD5EA9

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

    Spec: Calling methods.
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

    A client newer than this server may begin with a method that is not known here; what the wrappers say
    must not be lost with it.
    """
    layer: int | None = None
    client: ClientInfo | None = None
    offset = 0
    try:
        (constructor_id,) = struct.unpack_from("<I", body, offset)
        if constructor_id == _INVOKE_WITH_LAYER:
            (layer,) = struct.unpack_from("<i", body, 4)
            offset = 8
            (constructor_id,) = struct.unpack_from("<I", body, offset)
        if constructor_id == _INIT_CONNECTION:
            flags, api_id = struct.unpack_from("<Ii", body, offset + 4)
            offset += 12
            texts = []
            for _ in range(6):
                text, offset = _string(body, offset)
                texts.append(text)
            for bit in (1, 2):
                if flags & bit:
                    _, offset = tl.read_prefix(body, offset)
            client = ClientInfo(api_id, texts[0], texts[1], texts[2], texts[3], texts[5])
            (constructor_id,) = struct.unpack_from("<I", body, offset)
    except (struct.error, ProtocolError, ValueError):
        return layer, client, None
    return layer, client, constructor_id


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
