"""How long TL takes: a typical message, and the update that pushes it, in three layers.

The values are built once and the code of each constructor is compiled before the clock starts. Telethon
encodes its own objects of the same bytes and decodes those bytes, in its one layer.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from telesrv.tl import LAYER, read, types, write

LAYERS = (LAYER, 192, 158)


@dataclass(frozen=True)
class Measurement:
    """One value in one layer: its size and the nanoseconds of each operation; Telethon's where it speaks the
    layer."""

    name: str
    layer: int
    size_bytes: int
    encode_ns: float
    decode_ns: float
    telethon_encode_ns: float | None = None
    telethon_decode_ns: float | None = None


def message() -> types.Message:
    """A text of some length with one entity, as a private chat has it."""
    return types.Message(
        out=True,
        id=12345,
        from_id=types.PeerUser(user_id=1_000_001),
        peer_id=types.PeerUser(user_id=1_000_002),
        reply_to=types.MessageReplyHeader(reply_to_msg_id=12340),
        date=1_700_000_000,
        message="A typical message: one line of text, with a word in bold.",
        entities=[types.MessageEntityBold(offset=2, length=7)],
    )


def user(user_id: int) -> types.User:
    """A user as it comes along with a message."""
    return types.User(
        id=user_id,
        access_hash=-(2**62) + user_id,
        first_name="Ada",
        last_name="Lovelace",
        username="ada",
        status=types.UserStatusOffline(was_online=1_700_000_000),
    )


def update() -> types.Updates:
    """The message above on its way to a session."""
    new = types.UpdateNewMessage(message=message(), pts=77, pts_count=1)
    return types.Updates(
        updates=[new], users=[user(1_000_001), user(1_000_002)], chats=[], date=1_700_000_000, seq=0
    )


def best_ns(operation: Callable[[], object], repeat: int, number: int) -> float:
    """Returns the nanoseconds of one operation in the best of `repeat` runs of `number`."""
    return min(timeit.repeat(operation, repeat=repeat, number=number)) / number * 1e9


def measure(repeat: int, number: int) -> list[Measurement]:
    """Returns every measurement, the newest layer first."""
    found = []
    for name, value in (("message", message()), ("update", update())):
        for layer in LAYERS:
            data = write(value, layer)
            assert write(read(data), layer) == data
            encode = best_ns(lambda v=value, n=layer: write(v, n), repeat, number)  # type: ignore[misc]
            decode = best_ns(lambda d=data: read(d), repeat, number)  # type: ignore[misc]
            theirs = telethon_ns(data, repeat, number) if layer == LAYER else (None, None)
            found.append(Measurement(name, layer, len(data), encode, decode, *theirs))
    return found


def telethon_ns(data: bytes, repeat: int, number: int) -> tuple[float | None, float | None]:
    """Returns Telethon's nanoseconds to encode and decode the same bytes; Nones when it is absent or
    older."""
    try:
        from telethon.extensions import BinaryReader  # noqa: PLC0415 - not a dependency of the server
        from telethon.tl.alltlobjects import LAYER as THEIRS  # noqa: PLC0415
    except ImportError:
        return None, None
    if THEIRS != LAYER:
        return None, None
    value: Any = BinaryReader(data).tgread_object()
    assert bytes(value) == data
    decode = best_ns(lambda: BinaryReader(data).tgread_object(), repeat, number)
    return best_ns(lambda: bytes(value), repeat, number), decode


def run(repeat: int, number: int) -> None:
    """Measures and prints one table."""
    table = Table(title="TL: nanoseconds an operation")
    table.add_column("value", no_wrap=True, min_width=7)
    for heading in ("layer", "bytes", "encode", "(Telethon)", "ratio", "decode", "(Telethon)", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for m in measure(repeat, number):
        encode = _compared(m.encode_ns, m.telethon_encode_ns)
        decode = _compared(m.decode_ns, m.telethon_decode_ns)
        table.add_row(m.name, str(m.layer), str(m.size_bytes), *encode, *decode)
    console = Console()
    console.width = max(console.width, 90)
    console.print(table)


def _compared(ours: float, theirs: float | None) -> tuple[str, str, str]:
    if theirs is None:
        return f"{ours:,.0f}", "", ""
    return f"{ours:,.0f}", f"{theirs:,.0f}", f"{theirs / ours:.1f}x"
