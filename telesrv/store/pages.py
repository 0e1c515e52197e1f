"""Pages of the messages of one chat, newest first, by the offsets that clients page with.

*Spec: Pagination in the API*
"""

from __future__ import annotations

from typing import Final

from telesrv.domain.messages import MAX_PAGE, HistoryPage
from telesrv.domain.peers import MAX_ID
from telesrv.store.boxes import box_of
from telesrv.store.pool import Pool, Record

_MAX_ADD_OFFSET: Final = 100


async def page_around(
    pool: Pool,
    count: str,
    older: str,
    newer: str,
    chat: tuple[int, int, int],
    anchor: int,
    *,
    add_offset: int,
    limit: int,
    max_id: int,
    min_id: int,
) -> HistoryPage:
    """Returns the page that begins *add_offset* messages below the first one older than *anchor*, or above it
    when negative.

    Args:
        count: a statement that says how many there are in the chat, of which is paged.
        older, newer: statements that read a chat downward and upward: boxes below $4 and above $5, at most
            $6, after passing over $7; the last column is what *count* says.
        chat: owner_user_id, peer_type, peer_id.
        add_offset: is cut to -100 to 100.
        limit: is cut to 0 to 100.
        max_id, min_id: only ids below the one and above the other; 0 is no bound.
    """
    limit = max(0, min(limit, MAX_PAGE))
    add_offset = max(-_MAX_ADD_OFFSET, min(add_offset, _MAX_ADD_OFFSET))
    upper = max_id if 0 < max_id <= MAX_ID else MAX_ID
    lower = max(0, min(min_id, MAX_ID))
    rows: list[Record] = []
    if add_offset < 0 and anchor < upper:
        skip = max(0, -add_offset - limit)
        above = max(lower, anchor - 1)
        rows += reversed(await pool.fetch(newer, *chat, upper, above, -add_offset - skip, skip))
    below = limit + min(add_offset, 0)
    if below > 0:
        rows += await pool.fetch(older, *chat, min(upper, anchor), lower, below, max(add_offset, 0))
    if not rows:
        return HistoryPage((), await pool.fetchval(count, *chat) or 0)
    return HistoryPage(tuple(box_of(tuple(row)[:-1]) for row in rows), rows[-1]["total"] or 0)
