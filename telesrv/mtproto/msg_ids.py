"""msg_id: how the server makes its own, and what it remembers of the client's.

A msg_id is Unix time times 2^32, its two lowest bits say who sent it: 0 a client, 1 a server that answers,
3 a server that speaks by itself. Being signed 64-bit integers of growing time, msg_ids order messages.

Guarantee of the window: an id is new at most once. What it forgot lies at or below ``floor``, and nothing
at or below ``floor`` is ever taken for new.

*Spec: Mobile Protocol: Detailed Description, "Message Identifier (msg_id)"*
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from telesrv.mtproto.outgoing import Outgoing
from telesrv.mtproto.service_ids import SEQ_NO_TOO_HIGH, SEQ_NO_TOO_LOW

MAX_AGE_S: Final = 300
"""A client message whose msg_id is older was captured, or its client's clock is wrong."""

MAX_AHEAD_S: Final = 30
"""Likewise ahead of our clock."""

_FORGET_EVERY_S: Final = 30

_FOLLOW_CLOCK_AFTER: Final = 20 << 32
"""When the clock was set back by more, ids follow it: clients discard ids 30 s ahead of theirs."""


def msg_id_at(time_s: float) -> int:
    """Returns the lowest msg_id of a Unix time, its two lowest bits clear."""
    return int(time_s * 4294967296.0) & ~3


def seconds_of(msg_id: int) -> float:
    """Returns the Unix time of a msg_id."""
    return msg_id / 4294967296.0


class MsgIdGenerator:
    """Makes server msg_ids that follow the clock and strictly increase.

    Only when the clock was set back by more than 20 s they go back with it: ids too far ahead are
    discarded.

    Args:
        last: the highest id that was made before, its two lowest bits clear; 0 for none.
    """

    __slots__ = ("last",)

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def next(self, now: float, *, reply: bool) -> int:
        """Returns a fresh msg_id: mod 4 is 1 for an answer to the client, 3 otherwise."""
        msg_id = msg_id_at(now)
        if 0 <= self.last - msg_id <= _FOLLOW_CLOCK_AFTER:
            msg_id = self.last + 4
        self.last = msg_id
        return msg_id | (1 if reply else 3)


class Received:
    """What is known of one client message.

    ``answer`` is its answer from when that exists until it is acknowledged; ``lost`` says that the answer
    had to go before; ``bare_answer`` that it is not wrapped in an rpc_result; ``dropped`` that the client
    wants none.
    """

    __slots__ = ("answer", "answered", "bare_answer", "dropped", "is_request", "lost", "running", "seq_no")

    def __init__(self, seq_no: int, *, is_request: bool) -> None:
        self.seq_no = seq_no
        self.is_request = is_request
        self.running = False
        self.answered = False
        self.dropped = False
        self.lost = False
        self.bare_answer = False
        self.answer: Outgoing | None = None

    @property
    def is_kept(self) -> bool:
        """True while forgetting it would lose an answer, or execute the request again."""
        return self.running or self.answer is not None


class ReceivedWindow:
    """The client's recent messages by msg_id, with the order of their seq_nos.

    Args:
        limit: how many ids are remembered at most, those with a running or unacknowledged answer aside.
        floor: ids at or below it count as seen before.
    """

    __slots__ = ("_by_id", "_containers", "_forget_above", "_forget_at", "_ids", "_limit", "floor", "highest")

    def __init__(self, limit: int, floor: int = 0) -> None:
        self._limit = limit
        self._by_id: dict[int, Received] = {}
        self._ids: list[int] = []  # the keys of _by_id, sorted
        self._containers: set[int] = set()
        self._forget_above = limit
        self._forget_at = 0.0
        self.floor = floor
        self.highest = floor

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, msg_id: int) -> bool:
        return msg_id in self._by_id or msg_id in self._containers

    def get(self, msg_id: int) -> Received | None:
        """Returns what is known of a message; None for a container, or when it is not remembered."""
        return self._by_id.get(msg_id)

    def entries(self) -> Iterator[tuple[int, Received]]:
        """Yields every remembered message, msg_ids rising; containers aside."""
        return ((msg_id, self._by_id[msg_id]) for msg_id in self._ids)

    def containers(self) -> list[int]:
        """Returns the ids of the remembered containers, rising."""
        return sorted(self._containers)

    def restore(
        self, entries: Iterable[tuple[int, Received]], containers: Iterable[int], *, highest: int
    ) -> None:
        """Fills an empty window with what another one remembered; msg_ids rise."""
        self._by_id = dict(entries)
        self._ids = list(self._by_id)
        self._containers = set(containers)
        self.highest = highest

    def is_container(self, msg_id: int) -> bool:
        """Tells whether a container with this id was taken."""
        return msg_id in self._containers

    def order_error(self, msg_id: int, seq_no: int) -> int:
        """Returns the code of a refusal when ``seq_no`` contradicts the messages around ``msg_id``, else 0.

        Sorted by msg_id, seq_nos never fall, and an odd one never repeats. The remembered ones obey that,
        so the two neighbours speak for all.
        """
        ids = self._ids
        at = len(ids) if not ids or msg_id > ids[-1] else bisect_left(ids, msg_id)
        if at > 0:
            before = self._by_id[ids[at - 1]].seq_no
            if before > seq_no or (before == seq_no and seq_no & 1):
                return SEQ_NO_TOO_LOW
        if at < len(ids):
            behind = self._by_id[ids[at]].seq_no
            if behind < seq_no or (behind == seq_no and seq_no & 1):
                return SEQ_NO_TOO_HIGH
        return 0

    def add(self, msg_id: int, seq_no: int, now: float, *, is_request: bool) -> Received:
        """Remembers a new message; the caller has made sure that it is new and above the floor."""
        entry = self._by_id[msg_id] = Received(seq_no, is_request=is_request)
        ids = self._ids
        if not ids or msg_id > ids[-1]:
            ids.append(msg_id)
        else:
            ids.insert(bisect_left(ids, msg_id), msg_id)
        self.highest = max(self.highest, msg_id)
        self._forget(now)
        return entry

    def add_container(self, msg_id: int) -> None:
        """Remembers the id of a container."""
        self._containers.add(msg_id)
        self.highest = max(self.highest, msg_id)
        if len(self._containers) > self._limit:
            ordered = sorted(self._containers)
            oldest = ordered[: len(ordered) // 4 + 1]
            self._containers.difference_update(oldest)
            self.floor = max(self.floor, oldest[-1])

    def _forget(self, now: float) -> None:
        """Drops a quarter when full, and each half minute what is twice as old as a packet may be."""
        ids = self._ids
        cut = 0
        if len(ids) > self._forget_above:
            cut = len(ids) - self._limit + self._limit // 4 + 1
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_EVERY_S
            cut = max(cut, bisect_right(ids, msg_id_at(now - 2 * MAX_AGE_S)))
        if not cut:
            return
        kept = []
        for msg_id in ids[:cut]:
            if self._by_id[msg_id].is_kept:
                kept.append(msg_id)
            else:
                del self._by_id[msg_id]
                self.floor = max(self.floor, msg_id)
        self._ids = kept + ids[cut:]
        # What is kept may fill the window: then look again only after as many new ones as a cut would free.
        self._forget_above = max(self._limit, len(self._ids) + self._limit // 4)
