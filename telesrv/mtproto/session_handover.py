"""A session as bytes, for the process that goes on with it.

    magic:4  version:2  checksum:16  inflated:4  deflated:4  meta (zlib)  bodies
    meta: fixed part, then arrays: msg_ids, seq_nos and flags of the remembered messages, containers, owed
    acknowledgements, one record for each outgoing message

All little-endian. The checksum is the first half of SHA-256 over what follows it. Bodies stay as they are:
the large ones are compressed already.

Guarantees: what ``load`` returns holds the invariants of a session, whatever the bytes were; anything else
is a ``ValueError``, and nothing is allocated beyond a small multiple of the input. Not in it: service
messages that need no acknowledgement, whose asker is gone with its connection.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, Final

from telesrv import tl
from telesrv.mtproto.crypto import sha256
from telesrv.mtproto.limits import SessionLimits
from telesrv.mtproto.msg_ids import Received
from telesrv.mtproto.outgoing import ANSWER, SERVICE, UPDATE, Outgoing
from telesrv.mtproto.session_state import SessionState
from telesrv.tl import mt

VERSION: Final = 2

_MAGIC: Final = b"MTPs"
_PREFIX: Final = struct.Struct("<4sH16s")
_SIZES: Final = struct.Struct("<II")
_FIXED: Final = struct.Struct("<qqqdqqqqdBIIII")
_RECORD: Final = struct.Struct("<BBqiqI")

_MAX_META_BYTES: Final = 8 << 20
"""Far above what the limits allow; a claim beyond it is damage."""

_ANNOUNCED: Final = 1
_LOST_UPDATES: Final = 2

_FLAGS: Final = ("is_request", "running", "answered", "dropped", "lost", "bare_answer")


@dataclass(frozen=True, slots=True)
class Head:
    """Whose session it is, and what its machine itself remembers."""

    auth_key_id: int
    session_id: int
    min_msg_id: int
    last_received_at: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """What ``load`` made of the bytes; ``numbering`` is that of the packer."""

    head: Head
    state: SessionState
    numbering: tuple[int, int]
    announced: bool


def dump(head: Head, state: SessionState, numbering: tuple[int, int], *, announced: bool) -> bytes:
    """Returns the session as bytes; changes nothing."""
    window = state.window
    entries = list(window.entries())
    containers = window.containers()
    acks = [msg_id for msg_id in state.acks if window.get(msg_id) is not None]
    kept = state.outbound.kept()
    records = [
        _RECORD.pack(out.kind, out.reply, out.msg_id, out.seq_no, out.req_msg_id, len(out.body))
        for out in kept
    ]
    last_msg_id, content_sent = numbering
    fixed = _FIXED.pack(
        head.auth_key_id,
        head.session_id,
        head.min_msg_id,
        head.last_received_at,
        window.floor,
        window.highest,
        last_msg_id,
        content_sent,
        state.acks_due,
        announced * _ANNOUNCED | state.outbound.lost_updates * _LOST_UPDATES,
        len(entries),
        len(containers),
        len(acks),
        len(kept),
    )
    meta = b"".join(
        (
            fixed,
            _pack("q", [msg_id for msg_id, _ in entries]),
            _pack("i", [entry.seq_no for _, entry in entries]),
            bytes(_flags_of(entry) for _, entry in entries),
            _pack("q", containers),
            _pack("q", acks),
            *records,
        )
    )
    deflated = zlib.compress(meta, 1)
    content = b"".join(
        (_SIZES.pack(len(meta), len(deflated)), deflated, *(out.body for out in kept)),
    )
    return _PREFIX.pack(_MAGIC, VERSION, sha256(content)[:16]) + content


def load(data: bytes, auth_key_id: int, limits: SessionLimits) -> Loaded:
    """Returns the session of ``data``; requests that ran when it was dumped are answered by an error.

    Args:
        data: what ``dump`` returned.
        auth_key_id: the key whose session it must be.
        limits: of the session to be.

    Raises:
        ValueError: damaged, of another version, or of another key.
    """
    content = _checked(data)
    try:
        inflated_bytes, deflated_bytes = _SIZES.unpack_from(content)
        bodies_at = _SIZES.size + deflated_bytes
        meta = _Reader(_inflate(content[_SIZES.size : bodies_at], inflated_bytes))
        return _load(meta, _Reader(content[bodies_at:]), auth_key_id, limits)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"an exported session is damaged: {error}") from None


def _load(meta: _Reader, bodies: _Reader, auth_key_id: int, limits: SessionLimits) -> Loaded:
    (
        own_key_id,
        session_id,
        min_msg_id,
        last_received_at,
        floor,
        highest,
        last_msg_id,
        content_sent,
        acks_due,
        flags,
        entry_count,
        container_count,
        ack_count,
        kept_count,
    ) = meta.unpack(_FIXED)
    _require(own_key_id == auth_key_id, "it belongs to another key")
    _require(isfinite(last_received_at) and isfinite(acks_due), "a time is no number")
    _require(0 <= content_sent < 1 << 30, "a count is impossible")
    _require(last_msg_id >= 0 and not last_msg_id & 3, "a server msg_id is none")
    msg_ids = meta.array("q", entry_count)
    seq_nos = meta.array("i", entry_count)
    entries = [
        (msg_id, _entry(seq_no, entry_flags))
        for msg_id, seq_no, entry_flags in zip(msg_ids, seq_nos, meta.take(entry_count), strict=True)
    ]
    containers = meta.array("q", container_count)
    _require(_rise(msg_ids) and _rise(containers), "msg_ids are out of order")
    _require(max((floor, *msg_ids[-1:], *containers[-1:])) <= highest, "the highest msg_id is not")
    state = SessionState(session_id, limits, floor)
    state.window.restore(entries, containers, highest=highest)
    acks = meta.array("q", ack_count)
    _require(all(state.window.get(msg_id) is not None for msg_id in acks), "an acknowledgement of nothing")
    state.acks = dict.fromkeys(acks)
    state.acks_due = acks_due
    state.outbound.lost_updates = bool(flags & _LOST_UPDATES)
    kept = _outgoing(meta, bodies, kept_count)
    _require(meta.at_end and bodies.at_end, "bytes are left over")
    _check_outgoing(kept, state, last_msg_id, content_sent)
    state.outbound.restore(kept)
    _answer_running(state)
    head = Head(own_key_id, session_id, min_msg_id, last_received_at)
    return Loaded(head, state, (last_msg_id, content_sent), bool(flags & _ANNOUNCED))


def _outgoing(meta: _Reader, bodies: _Reader, count: int) -> list[Outgoing]:
    kept = []
    for _ in range(count):
        kind, reply, msg_id, seq_no, req_msg_id, body_bytes = meta.unpack(_RECORD)
        _require(kind in (SERVICE, ANSWER, UPDATE) and body_bytes >= 4, "an outgoing message is none")
        out = Outgoing(
            bodies.take(body_bytes), kind, reply=bool(reply), content_related=True, req_msg_id=req_msg_id
        )
        out.msg_id, out.seq_no = msg_id, seq_no
        kept.append(out)
    return kept


def _check_outgoing(kept: list[Outgoing], state: SessionState, last_msg_id: int, content_sent: int) -> None:
    """Hangs answers on their requests; refuses what no session can hold."""
    sent = [out for out in kept if out.msg_id]
    _require(kept[: len(sent)] == sent, "what was sent stands behind what was not")
    _require(len({out.msg_id for out in sent}) == len(sent), "a server msg_id stands twice")
    for out in sent:
        # msg_ids may be above the last one after the clock was set back; seq_nos never are.
        _require(out.msg_id & 1 == 1 and out.msg_id > 0, "a server msg_id is none")
        _require(out.seq_no & 1 == 1 and 0 < out.seq_no < 2 * content_sent, "a seq_no was never given")
    _require(not sent or last_msg_id > 0, "a server msg_id was never given")
    for out in kept:
        if out.kind != ANSWER:
            continue
        entry = state.window.get(out.req_msg_id)
        if entry is None or entry.answer is not None or entry.running or not entry.answered:
            raise ValueError("an exported session is refused: an answer without its request")
        entry.answer = out


def _answer_running(state: SessionState) -> None:
    for msg_id, entry in list(state.window.entries()):
        if not entry.running:
            continue
        entry.running = False
        if entry.bare_answer:
            state.answer(msg_id, entry, tl.write(mt.DestroyAuthKeyFail()))
        else:
            state.answer_error(msg_id, entry, 500, "RPC_CALL_FAIL")


def _flags_of(entry: Received) -> int:
    return sum(1 << bit for bit, name in enumerate(_FLAGS) if getattr(entry, name))


def _entry(seq_no: int, flags: int) -> Received:
    _require(flags < 1 << len(_FLAGS), "flags are unknown")
    entry = Received(seq_no, is_request=bool(flags & 1))
    for bit, name in enumerate(_FLAGS):
        setattr(entry, name, bool(flags >> bit & 1))
    return entry


def _checked(data: bytes) -> bytes:
    if len(data) < _PREFIX.size:
        raise ValueError("no exported session: too short")
    magic, version, checksum = _PREFIX.unpack_from(data)
    _require(magic == _MAGIC, "it is none")
    _require(version == VERSION, f"it is of version {version}")
    content = data[_PREFIX.size :]
    _require(sha256(content)[:16] == checksum, "its checksum is wrong")
    return content


def _inflate(data: bytes, size_bytes: int) -> bytes:
    _require(size_bytes <= _MAX_META_BYTES, "it claims too much")
    inflater = zlib.decompressobj()
    meta = inflater.decompress(data, size_bytes + 1)
    _require(len(meta) == size_bytes and inflater.eof and not inflater.unused_data, "a size is wrong")
    return meta


def _pack(code: str, values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}{code}", *values)


def _rise(values: tuple[int, ...]) -> bool:
    return all(a < b for a, b in pairwise(values))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"an exported session is refused: {what}")


class _Reader:
    """Takes a buffer apart from its front; what is not there is a ValueError."""

    __slots__ = ("_data", "_offset")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    @property
    def at_end(self) -> bool:
        return self._offset == len(self._data)

    def take(self, size_bytes: int) -> bytes:
        end = self._offset + size_bytes
        _require(end <= len(self._data), "it ends too early")
        part = self._data[self._offset : end]
        self._offset = end
        return part

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.take(form.size))

    def array(self, code: str, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize("<" + code)))
