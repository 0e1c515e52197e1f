"""Allocators of pts, box_ids and global message ids.

Guarantees: pts and box_ids are positive, below 2^31 and strictly increasing for one user as long as Redis
keeps its data; when it lost some, the rows' own keys notice (`StaleCounter` in `events`) and the counters
are raised to what PostgreSQL has. Every pts handed out is noted in the same step, so that one whose writer
died is found and filled. Message ids never repeat for one node number.

*Spec: Working with Updates*
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.domain.peers import MAX_ID
from telesrv.store.nodes import NodeLease, unix_ms
from telesrv.store.pool import Pool
from telesrv.store.redis import Redis

COUNTER_TTL_S: Final = 30 * 86_400
"""Counted from when the counter was restored: it is restored again from PostgreSQL, whatever its use."""
RESERVED: Final = "reserved:pts"
_SWEEP_MOST: Final = 1000
_LOAD_AT_ONCE: Final = 8
_SEQUENCES: Final = 1 << 12
"""Ids of one millisecond."""
_LAST_MS: Final = (1 << 41) - 1

# The highest pts and box_id of one account.
SQL_HIGHEST: Final = """
SELECT (SELECT max(pts) FROM user_update_events WHERE user_id = $1) AS pts,
    (SELECT max(box_id) FROM message_boxes WHERE owner_user_id = $1) AS box_id
"""


@dataclass(slots=True)
class Want:
    """How many ids one user needs."""

    user_id: int
    pts: int = 0
    box_ids: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """The ids one user was given: *pts* and *box_ids* of them, ending at the last ones."""

    user_id: int
    last_pts: int
    pts: int
    last_box_id: int = 0
    box_ids: int = 0

    @property
    def all_pts(self) -> range:
        return range(self.last_pts - self.pts + 1, self.last_pts + 1)

    @property
    def all_box_ids(self) -> range:
        return range(self.last_box_id - self.box_ids + 1, self.last_box_id + 1)

    @property
    def note(self) -> bytes:
        """How the reservation is noted in Redis."""
        return b"%d:%d:%d" % (self.user_id, self.last_pts, self.pts)


class Ids:
    """Hands out ids. `take` is called before BEGIN, so that no transaction waits for Redis."""

    def __init__(self, pool: Pool, redis: Redis, clock: Clock, node: int) -> None:
        self._pool = pool
        self._redis = redis
        self._clock = clock
        self._settled: list[bytes] = []
        self.message_ids = MessageIds(clock, node)

    async def take(self, wants: Sequence[Want], *, reseed: bool = False) -> dict[int, Grant]:
        """Returns the ids of every user in *wants*, each user once, in one step.

        With *reseed* the counters are first raised to what PostgreSQL has. The reservations stand until they
        are `settle`d; whoever does not use them abandons them (`EventLog.abandon`).

        Raises:
            Unavailable: Redis or PostgreSQL is away; ids may have been taken, and will be swept.
        """
        least: dict[int, tuple[int, int]] = {}
        if reseed:
            await self._load([want.user_id for want in wants], least)
        for _ in range(4):
            given, *answer = await self._call(wants, least)
            if given:
                lasts = zip(wants, answer[::2], answer[1::2], strict=True)
                return {want.user_id: _grant(want, pts, box_id) for want, pts, box_id in lasts}
            await self._load([wants[place].user_id for place in answer], least)
        raise Unavailable("Redis loses counters faster than they are restored")

    def settle(self, grants: Iterable[Grant]) -> None:
        """Notes that the pts of *grants* are all in the log; Redis hears of it with the next call."""
        self._settled.extend(grant.note for grant in grants if grant.pts)

    async def flush(self) -> None:
        """Tells Redis of what was settled.

        Raises:
            Unavailable: Redis is away; it is told later.
        """
        key = self._redis.key(RESERVED)
        while notes := self._settled[:_SWEEP_MOST]:
            self._settled = self._settled[_SWEEP_MOST:]
            try:
                await self._redis.call(partial(self._redis.client.zrem, key, *notes))
            except BaseException:
                self._settled.extend(notes)
                raise

    async def overdue(self, older_than_s: float) -> list[Grant]:
        """Returns the oldest reservations that stand longer than *older_than_s*, at most 1,000.

        Raises:
            Unavailable: Redis is away.
        """
        key = self._redis.key(RESERVED)
        until_ms = int((self._clock.time() - older_than_s) * 1000)
        notes: list[bytes] = await self._redis.call(
            lambda: self._redis.client.zrangebyscore(key, "-inf", until_ms, start=0, num=_SWEEP_MOST)
        )
        return [Grant(*map(int, note.split(b":"))) for note in notes]

    async def _call(self, wants: Sequence[Want], least: Mapping[int, tuple[int, int]]) -> list[int]:
        settled, self._settled = self._settled[:_SWEEP_MOST], self._settled[_SWEEP_MOST:]
        keys, args = take_columns(wants, least, settled, now_ms=int(self._clock.time() * 1000))
        try:
            answer: list[int] = await self._redis.script("take_ids", keys, args)
        except BaseException:
            self._settled.extend(settled)
            raise
        return answer

    async def _load(self, user_ids: Sequence[int], least: dict[int, tuple[int, int]]) -> None:
        """Reads the highest ids of some accounts, a few at a time: one statement is for one account."""
        for start in range(0, len(user_ids), _LOAD_AT_ONCE):
            some = user_ids[start : start + _LOAD_AT_ONCE]
            for user_id, row in zip(
                some,
                await asyncio.gather(*(self._pool.fetchrow(SQL_HIGHEST, user_id) for user_id in some)),
                strict=True,
            ):
                least[user_id] = (row["pts"] or 0, row["box_id"] or 0) if row else (0, 0)


def take_columns(
    wants: Sequence[Want], least: Mapping[int, tuple[int, int]], settled: Sequence[bytes], now_ms: int
) -> tuple[list[str], list[int | bytes]]:
    """Returns the keys and arguments of ``take_ids.lua``; without *least* nobody looked at PostgreSQL."""
    keys = [RESERVED]
    args: list[int | bytes] = [now_ms, COUNTER_TTL_S, len(settled), *settled]
    for want in wants:
        user_id = want.user_id
        keys += (f"counter:pts:{user_id}", f"counter:box_id:{user_id}")
        args += (user_id, want.pts, want.box_ids)
        if least:
            args += least.get(user_id, (-1, -1))
    return keys, args


def _grant(want: Want, last_pts: int, last_box_id: int) -> Grant:
    if last_pts > MAX_ID or last_box_id > MAX_ID:
        raise OverflowError(f"account {want.user_id} has used up its ids")
    return Grant(want.user_id, last_pts, want.pts, last_box_id, want.box_ids)


class MessageIds:
    """Global message ids: 41 bits of milliseconds, 10 of node, 12 of sequence; for tracing and keys only.

    A clock that steps back does not repeat an id: the last millisecond goes on, and a full one lends from
    the next. None names a time beyond what the lease of the number covers: a clock that steps forward is not
    followed before that is renewed.
    """

    EPOCH_MS: Final = 1_704_067_200_000
    """2024-01-01."""

    def __init__(self, clock: Clock, node: int) -> None:
        if not 0 <= node < 1 << 10:
            raise ValueError("a node number has 10 bits")
        self._clock = clock
        self._node = node
        self._lease: NodeLease | None = None
        self._last_ms = 0
        self._sequence = 0

    @property
    def node(self) -> int:
        """The number of this process among all of one database."""
        return self._node

    @property
    def holder(self) -> str | None:
        """What tells the lease of the number from every other one; None when the number is not leased."""
        return None if self._lease is None else self._lease.holder

    def hold(self, lease: NodeLease) -> None:
        """Makes ids of a leased node number from now on, and none while the lease is not valid."""
        self._node, self._lease = lease.node, lease
        self._last_ms, self._sequence = self._since_epoch(lease.used_ms), _SEQUENCES - 1

    def next(self) -> int:
        """Returns an id that this node number never gave before, positive and below 2^63.

        Raises:
            Unavailable: the lease of the number has run out, or the ids that it covers are used up.
        """
        lease = self._lease
        if lease is not None and not lease.valid():
            raise Unavailable("the node number")
        until_ms = _LAST_MS if lease is None else self._since_epoch(lease.until_ms)
        ms, sequence = min(self._since_epoch(unix_ms(self._clock)), until_ms), 0
        if ms <= self._last_ms:
            ms, sequence = self._last_ms, self._sequence + 1
            if sequence == _SEQUENCES:
                ms, sequence = ms + 1, 0
        if ms > until_ms:
            raise Unavailable("the node number")
        if lease is not None:
            lease.used_ms = ms + self.EPOCH_MS
        self._last_ms, self._sequence = ms, sequence
        return ms << 22 | self._node << 12 | sequence

    def _since_epoch(self, ms: int) -> int:
        return max(1, ms - self.EPOCH_MS)
