"""Search among the messages of one owner, by an index that is built beside the writes.

Guarantees: what is found is compared with the text as it stands, so that an edited or deleted message is
right at once; what the index does not have yet is read itself, so that a fresh message is found at once. No
send writes a row for the search; an edit writes the new terms in its own transaction. A search reads a
bounded number of rows and says so (*inexact*) when there may be more.

The terms of messages (domain/search.py) stand in one row for a segment of 64 box_ids, each once.
All messages of an owner up to its mark are indexed. The mark never passes a box whose pts is above the log's
contiguous mark: below it no box can appear any more.

Concurrency: any process may index any owner at any time; what is done twice makes segments longer, not wrong.
Segments are locked in the order of their key by all, and who indexes an owner holds its mark: nobody waits in
a ring.

*Spec: messages.search; messages.searchGlobal*
"""

# ruff: noqa: S608 - only the column list of this module is put in
from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from telesrv.domain.messages import MAX_PAGE, PINNED, Entity, MessageBox
from telesrv.domain.peers import MAX_ID
from telesrv.domain.search import URL_TERM, Found, SearchRequest, has_link, terms_of
from telesrv.domain.snapshots import entities_from_json
from telesrv.store.boxes import SQL_GET, box_from_row
from telesrv.store.marks import Marks
from telesrv.store.messages import SQL_BEFORE_DATE
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.signals import Signals

SEGMENT_BITS: Final = 6
BATCH: Final = 1_024
"""Messages indexed in one transaction."""
_CATCH_UP: Final = 4
"""Batches that a search indexes itself..."""
FEW: Final = 256
"""... when as many messages are missing: fewer are read faster than they are indexed."""
_WINDOW: Final = 16_384
"""Segments of the index that a search looks at below where it begins: a million messages."""
_SEGMENTS: Final = 16
"""Segments read at once."""
_SCAN: Final = 500
MAX_ROWS: Final = 30_000
"""Messages that a search looks at to fill a page."""
COUNT_ROWS: Final = 4_000
"""Messages that it looks at beyond that to count."""
_MIN_ADD_OFFSET: Final = -100
_MAX_ARCHIVED: Final = 10_000

_TEXT: Final = (
    "b.box_id, b.peer_id, b.outgoing, b.date, b.text, b.entities, b.flags, b.action IS NULL AS said"
)

# Reads the texts of a chat downward.
SQL_CHAT_OLDER: Final = f"""
SELECT {_TEXT} FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3
    AND b.box_id > $4 AND b.box_id < $5 AND NOT b.deleted
ORDER BY b.box_id DESC LIMIT $6
"""
# Reads the texts of a chat upward.
SQL_CHAT_NEWER: Final = f"""
SELECT {_TEXT} FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3
    AND b.box_id > $4 AND b.box_id < $5 AND NOT b.deleted
ORDER BY b.box_id LIMIT $6
"""
# Reads the texts of an owner downward.
SQL_OLDER: Final = f"""
SELECT {_TEXT} FROM message_boxes b
WHERE b.owner_user_id = $1
    AND b.box_id > $2 AND b.box_id < $3 AND NOT b.deleted
ORDER BY b.box_id DESC LIMIT $4
"""
# Reads the texts of an owner upward.
SQL_NEWER: Final = f"""
SELECT {_TEXT} FROM message_boxes b
WHERE b.owner_user_id = $1
    AND b.box_id > $2 AND b.box_id < $3 AND NOT b.deleted
ORDER BY b.box_id LIMIT $4
"""
# Reads the texts of a chat in some segments.
SQL_CHAT_SEGMENTS: Final = f"""
SELECT {_TEXT} FROM unnest($4::int[], $5::int[]) AS s(low, high)
JOIN message_boxes b ON b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3
    AND b.box_id > s.low AND b.box_id < s.high
WHERE NOT b.deleted
"""
# Reads the texts of an owner in some segments.
SQL_SEGMENTS: Final = f"""
SELECT {_TEXT} FROM unnest($2::int[], $3::int[]) AS s(low, high)
JOIN message_boxes b ON b.owner_user_id = $1
    AND b.box_id > s.low AND b.box_id < s.high
WHERE NOT b.deleted
"""
# Finds the segments that have all of some terms, by their beginnings.
SQL_HAVING: Final = """
SELECT segment FROM search_segments
WHERE owner_user_id = $1 AND segment >= $3 AND segment <= $4
    AND (terms = '*'
        OR NOT EXISTS (SELECT 1 FROM unnest($2::text[]) AS t(term) WHERE strpos(terms, term) = 0))
ORDER BY segment
"""
# Up to where an owner's messages are indexed, and the newest of them all.
SQL_MARK: Final = """
SELECT (SELECT box_id FROM search_marks WHERE owner_user_id = $1) AS mark,
    (SELECT max(box_id) FROM message_boxes WHERE owner_user_id = $1) AS newest
"""
# Reads the texts that are to be indexed next, joined by segment, up to the first with a pts above $3.
SQL_NEXT: Final = """
WITH n AS MATERIALIZED (
    SELECT box_id, pts, CASE WHEN deleted THEN '' ELSE text END AS text,
        coalesce(NOT deleted AND entities::text LIKE '%rl"%', false) AS linked
    FROM message_boxes
    WHERE owner_user_id = $1
        AND box_id > coalesce((SELECT box_id FROM search_marks WHERE owner_user_id = $1), 0)
    ORDER BY box_id LIMIT $2
)
SELECT box_id >> 6 AS segment, string_agg(text, E'\\n') AS texts, bool_or(linked) AS linked,
    max(box_id) AS last, count(*) AS boxes
FROM n WHERE box_id < coalesce((SELECT min(box_id) FROM n WHERE pts > $3), 2147483647)
GROUP BY 1 ORDER BY 1
"""
# Adds the terms of one owner's segments, and moves the mark, forward only; it does not wait for the disk,
# since terms and mark are lost together.
SQL_INDEX: Final = """
WITH added AS (
    INSERT INTO search_segments AS s (owner_user_id, segment, terms)
    SELECT $1, segment, terms FROM unnest($2::int[], $3::text[]) AS q(segment, terms)
    ON CONFLICT (owner_user_id, segment) DO UPDATE SET terms = CASE
        WHEN length(s.terms) + length(excluded.terms) > 200000 THEN '*' ELSE s.terms || excluded.terms END
    WHERE s.terms <> '*'
)
INSERT INTO search_marks AS m (owner_user_id, box_id)
SELECT $1, $4 WHERE (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
ON CONFLICT (owner_user_id) DO UPDATE SET box_id = GREATEST(m.box_id, excluded.box_id)
"""
# Adds terms to segments of several owners; a segment that was edited too often has all terms from then on.
SQL_ADD: Final = """
INSERT INTO search_segments AS s (owner_user_id, segment, terms)
SELECT owner, segment, terms FROM unnest($1::bigint[], $2::int[], $3::text[]) AS q(owner, segment, terms)
ON CONFLICT (owner_user_id, segment) DO UPDATE SET terms = CASE
    WHEN length(s.terms) + length(excluded.terms) > 200000 THEN '*' ELSE s.terms || excluded.terms END
WHERE s.terms <> '*'
"""
# The chats in the archive.
SQL_ARCHIVED: Final = """
SELECT peer_id FROM dialogs WHERE owner_user_id = $1 AND folder_id = 1 LIMIT $2
"""


def _stored(text: str, linked: bool) -> str:
    """Returns the terms of a text as they are stored."""
    terms = terms_of(text)
    if linked:
        terms.add(URL_TERM)
    return "".join(f"\n{term}" for term in terms)


async def add_edited(
    connection: Connection, boxes: Sequence[tuple[int, int]], text: str, entities: Iterable[Entity]
) -> None:
    """Adds the terms of a new text of some (owner, box_id) to the index, in the caller's transaction.

    Locks their segments, by key. The owners differ.
    """
    stored = _stored(text, has_link(entities))
    rows = sorted((owner, box_id >> SEGMENT_BITS) for owner, box_id in boxes)
    await connection.execute(SQL_ADD, *zip(*rows, strict=True), [stored] * len(rows))


@dataclass(slots=True)
class _Plan:
    """Where the matches of a search may be."""

    mark: int
    """Beyond it every message is looked at."""
    segments: list[int] | None
    """Up to it only those of these segments, in rising order; None: all."""
    cut: bool
    """Whether segments were left out that are too far down."""
    archived: frozenset[int] | None
    """The chats that the folder has, or has not."""


class SearchStore:
    """Searches, and the index that they use."""

    def __init__(self, pool: Pool, marks: Marks, signals: Signals) -> None:
        self._pool = pool
        self._marks = marks
        self._signals = signals

    async def find(self, request: SearchRequest) -> Found:
        """Returns a page of the messages that match, newest first; offsets as of a history page.

        Raises:
            Unavailable: a server is away.

        *Spec: messages.search; Offsets*
        """
        limit = max(0, min(request.limit, MAX_PAGE))
        add_offset = max(_MIN_ADD_OFFSET, min(request.add_offset, MAX_ROWS))
        lower = max(0, min(request.min_id, MAX_ID))
        upper = request.max_id if 0 < request.max_id <= MAX_ID else MAX_ID
        if request.peer is not None and 0 < request.max_date <= MAX_ID:
            chat = (request.owner, request.peer.type, request.peer.id)
            before = await self._pool.fetchval(SQL_BEFORE_DATE, *chat, request.max_date)
            upper = min(upper, (before or 0) + 1)
        anchor = min(request.offset_id, MAX_ID) if request.offset_id > 0 else MAX_ID
        plan = await self._plan(request, lower, upper, min(upper, anchor))
        skip = max(0, -add_offset - limit)
        wanted = limit + add_offset
        older, cut_older = await self._matches(request, plan, lower, min(upper, anchor), wanted + 1)
        newer: list[int] = []
        cut_newer = False
        if anchor < upper:
            newer, cut_newer = await self._matches(
                request, plan, max(lower, anchor - 1), upper, max(0, -add_offset), ascending=True
            )
        page = [*reversed(newer[skip : max(0, -add_offset)]), *older[max(0, add_offset) : max(0, wanted)]]
        boxes = await self._boxes(request.owner, page)
        inexact = cut_older or cut_newer or plan.cut
        more = cut_older or plan.cut or len(older) > max(0, wanted)
        before_page = max(0, len(newer) + add_offset) if add_offset < 0 else len(newer) + add_offset
        total = len(older) + len(newer) + (1 if inexact else 0)
        return Found(boxes, total, min(before_page, total), inexact, more)

    async def _boxes(self, owner: int, box_ids: list[int]) -> tuple[MessageBox, ...]:
        rows = await self._pool.fetch(SQL_GET, owner, box_ids) if box_ids else []
        found = {row["box_id"]: box_from_row(row) for row in rows}
        return tuple(found[box_id] for box_id in box_ids if box_id in found)

    async def _plan(self, request: SearchRequest, lower: int, upper: int, anchor: int) -> _Plan:
        archived = None
        if request.folder_id is not None:
            rows = await self._pool.fetch(SQL_ARCHIVED, request.owner, _MAX_ARCHIVED)
            archived = frozenset(row["peer_id"] for row in rows)
        terms = list(request.query.terms)
        if request.links:
            terms.append(URL_TERM)
        if not terms:
            return _Plan(0, None, False, archived)
        mark = await self._caught_up(request.owner)
        floor = (min(anchor, mark) >> SEGMENT_BITS) - _WINDOW
        lowest = max(lower >> SEGMENT_BITS, floor)
        rows = await self._pool.fetch(
            SQL_HAVING, request.owner, [f"\n{term}" for term in terms], lowest, upper >> SEGMENT_BITS
        )
        return _Plan(mark, [row["segment"] for row in rows], floor > lower >> SEGMENT_BITS, archived)

    async def _caught_up(self, owner: int) -> int:
        """Returns the owner's mark, moved as far as one search may."""
        mark, newest = await self._mark(owner)
        for _ in range(_CATCH_UP):
            if newest - mark < FEW or not await self.index(owner):
                break
            mark, newest = await self._mark(owner)
        if newest - mark >= BATCH:
            self._signals.grew(owner, BATCH)
        return mark

    async def _mark(self, owner: int) -> tuple[int, int]:
        row = await self._pool.fetchrow(SQL_MARK, owner)
        return (row["mark"] or 0, row["newest"] or 0) if row is not None else (0, 0)

    async def _matches(
        self,
        request: SearchRequest,
        plan: _Plan,
        low: int,
        high: int,
        wanted: int,
        *,
        ascending: bool = False,
    ) -> tuple[list[int], bool]:
        """Returns the ids between two others that match, and whether it stopped before the end."""
        found: list[int] = []
        looked_at = beyond = 0
        async for rows in self._rows(request, plan, low, high, ascending):
            found += [row["box_id"] for row in rows if self._is_match(request, plan, row)]
            looked_at += len(rows)
            if len(found) >= wanted:
                beyond += len(rows) + 1
            if looked_at >= MAX_ROWS or beyond >= COUNT_ROWS:
                return found, True
        return found, False

    @staticmethod
    def _is_match(request: SearchRequest, plan: _Plan, row: Record) -> bool:
        if not row["said"] or (request.pinned and not row["flags"] & PINNED):
            return False
        if request.outgoing is not None and row["outgoing"] != request.outgoing:
            return False
        if request.min_date > 0 and row["date"] <= request.min_date:
            return False
        if 0 < request.max_date <= row["date"]:
            return False
        if plan.archived is not None and (row["peer_id"] in plan.archived) != (request.folder_id == 1):
            return False
        if request.links and not has_link(entities_from_json(row["entities"])):
            return False
        return request.query.matches(row["text"])

    async def _rows(
        self, request: SearchRequest, plan: _Plan, low: int, high: int, ascending: bool
    ) -> AsyncIterator[Collection[Record]]:
        """Yields the messages above *low* and below *high* that may match, in order, some at a time."""
        if plan.segments is None:
            async for rows in self._scan(request, low, high, ascending):
                yield rows
            return
        if not ascending:
            async for rows in self._scan(request, max(low, plan.mark), high, ascending):
                yield rows
        ranges = [
            (max(low, (segment << SEGMENT_BITS) - 1), min(high, plan.mark + 1, (segment + 1) << SEGMENT_BITS))
            for segment in (plan.segments if ascending else reversed(plan.segments))
        ]
        ranges = [(first, last) for first, last in ranges if first + 1 < last]
        peer = request.peer
        for place in range(0, len(ranges), _SEGMENTS):
            lows, highs = zip(*ranges[place : place + _SEGMENTS], strict=True)
            if peer is None:
                rows = await self._pool.fetch(SQL_SEGMENTS, request.owner, lows, highs)
            else:
                rows = await self._pool.fetch(
                    SQL_CHAT_SEGMENTS, request.owner, peer.type, peer.id, lows, highs
                )
            yield sorted(rows, key=lambda row: int(row["box_id"]), reverse=not ascending)
        if ascending:
            async for rows in self._scan(request, max(low, plan.mark), high, ascending):
                yield rows

    async def _scan(
        self, request: SearchRequest, low: int, high: int, ascending: bool
    ) -> AsyncIterator[Collection[Record]]:
        """Yields all messages above *low* and below *high*."""
        peer = request.peer
        while low + 1 < high:
            if peer is None:
                sql = SQL_NEWER if ascending else SQL_OLDER
                rows = await self._pool.fetch(sql, request.owner, low, high, _SCAN)
            else:
                sql = SQL_CHAT_NEWER if ascending else SQL_CHAT_OLDER
                chat = (request.owner, peer.type, peer.id)
                rows = await self._pool.fetch(sql, *chat, low, high, _SCAN)
            yield rows
            if len(rows) < _SCAN:
                return
            if ascending:
                low = rows[-1]["box_id"]
            else:
                high = rows[-1]["box_id"]

    async def index(self, owner: int) -> int:
        """Indexes the owner's next messages, at most 1,024; returns how many.

        Raises:
            Unavailable: a server is away; nothing is lost.
        """
        settled, _ = await self._marks.walk(owner)
        segments = await self._pool.fetch(SQL_NEXT, owner, BATCH, settled)
        if not segments:
            return 0
        await self._pool.execute(
            SQL_INDEX,
            owner,
            [row["segment"] for row in segments],
            [_stored(row["texts"], row["linked"]) for row in segments],
            segments[-1]["last"],
        )
        return sum(row["boxes"] for row in segments)

    async def index_due(self) -> int:
        """Indexes the next messages of an owner who got many in this process; returns how many.

        To be called every second or so, and again at once while there are some.

        Raises:
            Unavailable: a server is away; the next call goes on.
        """
        owner = self._signals.take_grown()
        if owner is None:
            return 0
        indexed = await self.index(owner)
        if indexed == BATCH:
            self._signals.grew(owner, BATCH)
        return indexed
