"""Search among the messages of one owner, by an index that is built beside the writes.

Guarantees: what is found is compared with the text as it stands, so that an edited or deleted message is
right at once; what the index does not have yet is read itself, so that a fresh message is found at once. No
send writes a row for the search; an edit writes the new terms in its own transaction. A search reads a
bounded number of rows and says so (*inexact*) when there may be more.

The terms of a message (domain/search.py) stand in the index by segments of 64 box_ids, each once a segment.
All messages of an owner up to its mark are indexed. The mark never passes a box whose pts is above the log's
contiguous mark: below it no box can appear any more.

Concurrency: any process may index any owner at any time; the same work done twice is the same rows. Rows are
locked in the order search_terms, search_marks; within a table by key.

*Spec: messages.search; messages.searchGlobal*
"""

# ruff: noqa: S608 - only the column list of this module is put in
from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from telesrv.domain.messages import MAX_PAGE, Entity, MessageBox
from telesrv.domain.peers import MAX_ID
from telesrv.domain.search import URL_TERM, Found, SearchRequest, has_link, terms_of
from telesrv.store.boxes import SQL_GET, box_from_row, entities_from_json
from telesrv.store.marks import Marks
from telesrv.store.messages import SQL_BEFORE_DATE
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.signals import Signals

SEGMENT_BITS: Final = 6
BATCH: Final = 1_024
"""Messages indexed in one transaction."""
_CATCH_UP: Final = 4
"""Batches that a search indexes itself when a lot is missing."""
_CANDIDATES: Final = 100_000
"""Entries of the index read for one term; one that has more does not narrow the search down."""
_SEGMENTS: Final = 16
"""Segments read at once."""
_SCAN: Final = 500
MAX_ROWS: Final = 30_000
"""Messages that a search looks at to fill a page."""
COUNT_ROWS: Final = 4_000
"""Messages that it looks at beyond that to count."""
_MAX_ADD_OFFSET: Final = 100
_MAX_ARCHIVED: Final = 10_000
_ABOVE_ALL: Final = "\U0010ffff"

_TEXT: Final = "b.box_id, b.peer_id, b.outgoing, b.date, b.text, b.entities"

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
# Finds the segments that have a term with a beginning.
SQL_TERM: Final = """
SELECT segment FROM search_terms
WHERE owner_user_id = $1 AND term >= $2 AND term < $3 AND segment >= $4 AND segment <= $5 LIMIT $6
"""
# Up to where an owner's messages are indexed, and the newest of them all.
SQL_MARK: Final = """
SELECT (SELECT box_id FROM search_marks WHERE owner_user_id = $1) AS mark,
    (SELECT max(box_id) FROM message_boxes WHERE owner_user_id = $1) AS newest
"""
# Reads the texts that are to be indexed next.
SQL_NEXT: Final = """
SELECT box_id, pts, CASE WHEN deleted THEN '' ELSE text END AS text, entities FROM message_boxes
WHERE owner_user_id = $1 AND box_id > $2 ORDER BY box_id LIMIT $3
"""
# Adds terms to the index.
SQL_ADD: Final = """
INSERT INTO search_terms (owner_user_id, term, segment)
SELECT owner, term, segment FROM unnest($1::bigint[], $2::text[], $3::int[]) AS q(owner, term, segment)
ON CONFLICT (owner_user_id, term, segment) DO NOTHING
"""
# Moves an owner's mark, forward only.
SQL_MOVE: Final = """
INSERT INTO search_marks AS m (owner_user_id, box_id) VALUES ($1, $2)
ON CONFLICT (owner_user_id) DO UPDATE SET box_id = GREATEST(m.box_id, excluded.box_id)
"""
# The chats in the archive.
SQL_ARCHIVED: Final = """
SELECT peer_id FROM dialogs WHERE owner_user_id = $1 AND folder_id = 1 LIMIT $2
"""


async def add_terms(connection: Connection, texts: Iterable[tuple[int, int, str, Iterable[Entity]]]) -> None:
    """Adds the terms of some (owner, box_id, text, entities) to the index, in the caller's transaction.

    Locks rows of search_terms, by key.
    """
    rows = {
        (owner, term, box_id >> SEGMENT_BITS)
        for owner, box_id, text, entities in texts
        for term in terms_of(text, entities)
    }
    if rows:
        owners, terms, segments = zip(*sorted(rows), strict=True)
        await connection.execute(SQL_ADD, owners, terms, segments)


@dataclass(slots=True)
class _Plan:
    """Where the matches of a search may be."""

    mark: int
    """Beyond it every message is looked at."""
    segments: list[int] | None
    """Up to it only those of these segments, in rising order; None: all."""
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
        add_offset = max(-_MAX_ADD_OFFSET, min(request.add_offset, _MAX_ADD_OFFSET))
        lower = max(0, min(request.min_id, MAX_ID))
        upper = request.max_id if 0 < request.max_id <= MAX_ID else MAX_ID
        if request.peer is not None and 0 < request.max_date <= MAX_ID:
            chat = (request.owner, request.peer.type, request.peer.id)
            before = await self._pool.fetchval(SQL_BEFORE_DATE, *chat, request.max_date)
            upper = min(upper, (before or 0) + 1)
        anchor = min(request.offset_id, MAX_ID) if request.offset_id > 0 else MAX_ID
        plan = await self._plan(request, lower, upper)
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
        inexact = cut_older or cut_newer
        more = cut_older or len(older) > max(0, wanted)
        before_page = max(0, len(newer) + add_offset) if add_offset < 0 else len(newer) + add_offset
        total = len(older) + len(newer) + (1 if inexact else 0)
        return Found(boxes, total, min(before_page, total), inexact, more)

    async def _boxes(self, owner: int, box_ids: list[int]) -> tuple[MessageBox, ...]:
        rows = await self._pool.fetch(SQL_GET, owner, box_ids) if box_ids else []
        found = {row["box_id"]: box_from_row(row) for row in rows}
        return tuple(found[box_id] for box_id in box_ids if box_id in found)

    async def _plan(self, request: SearchRequest, lower: int, upper: int) -> _Plan:
        archived = None
        if request.folder_id is not None:
            rows = await self._pool.fetch(SQL_ARCHIVED, request.owner, _MAX_ARCHIVED)
            archived = frozenset(row["peer_id"] for row in rows)
        terms = list(request.query.terms)
        if request.links:
            terms.append(URL_TERM)
        if not terms:
            return _Plan(0, None, archived)
        mark = await self._caught_up(request.owner)
        bounds = (lower >> SEGMENT_BITS, upper >> SEGMENT_BITS)
        segments: set[int] | None = None
        for term in terms:
            rows = await self._pool.fetch(
                SQL_TERM, request.owner, term, term + _ABOVE_ALL, *bounds, _CANDIDATES
            )
            if len(rows) < _CANDIDATES:
                having = {row["segment"] for row in rows}
                segments = having if segments is None else segments & having
                if not segments:
                    break
        return _Plan(mark, None if segments is None else sorted(segments), archived)

    async def _caught_up(self, owner: int) -> int:
        """Returns the owner's mark, moved as far as one search may."""
        mark, newest = await self._mark(owner)
        for _ in range(_CATCH_UP):
            if newest - mark < BATCH or not await self.index(owner):
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
        mark, _ = await self._mark(owner)
        following = await self._pool.fetch(SQL_NEXT, owner, mark, BATCH)
        rows = list(takewhile(lambda row: row["pts"] <= settled, following))
        if not rows:
            return 0
        async with self._pool.transaction() as connection:
            # a crash may take the terms back, and the mark with them
            await connection.execute("SET LOCAL synchronous_commit = off")
            await add_terms(
                connection,
                ((owner, row["box_id"], row["text"], entities_from_json(row["entities"])) for row in rows),
            )
            await connection.execute(SQL_MOVE, owner, rows[-1]["box_id"])
        return len(rows)

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
