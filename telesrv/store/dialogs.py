"""Reading the owner's list of chats.

Guarantees: a page is an index seek; its top messages are read in one statement, whatever their number.

*Spec: Dialogs*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from telesrv.domain.dialogs import Dialog, DialogPage
from telesrv.domain.messages import MAX_PAGE
from telesrv.domain.peers import MAX_ID, Peer, PeerType
from telesrv.store.boxes import SQL_GET, box_from_row
from telesrv.store.pool import Pool, Record

_COLUMNS: Final = """owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, read_inbox_max_id,
    read_outbox_max_id, folder_id, pinned_order, unread_mark"""

# Reads dialogs downward from a place in the order of (date, box_id, peer) of their top messages.
SQL_PAGE: Final = f"""
SELECT {_COLUMNS} FROM dialogs
WHERE owner_user_id = $1
    AND (top_date, top_box_id, peer_type, peer_id) < ($2::int, $3::int, $4::smallint, $5::bigint)
    AND ($6::int IS NULL OR folder_id = $6) AND NOT ($7 AND pinned_order > 0)
ORDER BY top_date DESC, top_box_id DESC, peer_type DESC, peer_id DESC LIMIT $8
"""
# Counts the dialogs of a folder, or all.
SQL_TOTAL: Final = """
SELECT count(*) FROM dialogs WHERE owner_user_id = $1 AND ($2::int IS NULL OR folder_id = $2)
"""
# Reads the pinned dialogs of a folder.
SQL_PINNED: Final = f"""
SELECT {_COLUMNS} FROM dialogs
WHERE owner_user_id = $1 AND folder_id = $2 AND pinned_order > 0
ORDER BY pinned_order DESC
"""
# Reads the dialogs with certain peers.
SQL_FOR_PEERS: Final = f"""
SELECT {_COLUMNS} FROM dialogs
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = ANY($3::bigint[])
"""
# When a message was sent, deleted or not.
SQL_DATE: Final = """
SELECT date FROM message_boxes WHERE owner_user_id = $1 AND box_id = $2
"""
# Sums up what is unread.
SQL_UNREAD_TOTAL: Final = """
SELECT coalesce(sum(unread_count), 0)::bigint FROM dialogs WHERE owner_user_id = $1
"""


class DialogStore:
    """Reads of dialogs; messages write them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(
        self,
        owner: int,
        *,
        folder_id: int | None = None,
        offset_date: int = 0,
        offset_id: int = 0,
        offset_peer: Peer | None = None,
        limit: int = MAX_PAGE,
        exclude_pinned: bool = False,
    ) -> DialogPage:
        """Returns dialogs below the place that the offsets name, newest first, at most 100.

        The offsets are those of the last dialog the client has: its top message's date and id, and its
        peer. A dialog that has moved up since is not given again, and none is skipped. *folder_id* None is
        every folder; the total counts pinned ones too.

        *Spec: messages.getDialogs; Offsets*
        """
        limit = max(0, min(limit, MAX_PAGE))
        if offset_date <= 0 and 0 < offset_id <= MAX_ID:
            offset_date = await self._pool.fetchval(SQL_DATE, owner, offset_id) or 0
        place = (MAX_ID, MAX_ID, 0, 0)
        if 0 < offset_date <= MAX_ID:
            peer = (offset_peer.type, offset_peer.id) if offset_peer else (0, 0)
            place = (offset_date, max(0, min(offset_id, MAX_ID)), *peer)
        rows = await self._pool.fetch(SQL_PAGE, owner, *place, folder_id, exclude_pinned, limit)
        return await self._with_tops(
            owner, rows, total=await self._pool.fetchval(SQL_TOTAL, owner, folder_id)
        )

    async def pinned(self, owner: int, folder_id: int) -> DialogPage:
        """Returns the pinned dialogs of a folder, highest first.

        *Spec: messages.getPinnedDialogs*
        """
        rows = await self._pool.fetch(SQL_PINNED, owner, folder_id)
        return await self._with_tops(owner, rows, total=len(rows))

    async def for_peers(self, owner: int, peers: Iterable[Peer]) -> DialogPage:
        """Returns the owner's dialogs with *peers*, in their order; a peer without one is left out.

        *Spec: messages.getPeerDialogs*
        """
        wanted = list(dict.fromkeys(peers))
        by_type: dict[PeerType, list[int]] = {}
        for peer in wanted:
            by_type.setdefault(peer.type, []).append(peer.id)
        found: dict[Peer, Record] = {}
        for peer_type, ids in by_type.items():
            for row in await self._pool.fetch(SQL_FOR_PEERS, owner, peer_type, ids):
                found[Peer(peer_type, row["peer_id"])] = row
        rows = [found[peer] for peer in wanted if peer in found]
        return await self._with_tops(owner, rows, total=len(rows))

    async def unread_total(self, owner: int) -> int:
        """Returns how many messages the owner has not read."""
        return int(await self._pool.fetchval(SQL_UNREAD_TOTAL, owner))

    async def _with_tops(self, owner: int, rows: Collection[Record], *, total: int) -> DialogPage:
        dialogs = tuple(_dialog(row) for row in rows)
        tops = [dialog.top_box_id for dialog in dialogs if dialog.top_box_id]
        boxes = await self._pool.fetch(SQL_GET, owner, tops) if tops else []
        return DialogPage(dialogs, {row["box_id"]: box_from_row(row) for row in boxes}, total)


def _dialog(row: Record) -> Dialog:
    return Dialog(
        owner_user_id=row["owner_user_id"],
        peer=Peer(PeerType(row["peer_type"]), row["peer_id"]),
        top_box_id=row["top_box_id"],
        top_date=row["top_date"],
        unread_count=row["unread_count"],
        read_inbox_max_id=row["read_inbox_max_id"],
        read_outbox_max_id=row["read_outbox_max_id"],
        folder_id=row["folder_id"],
        pinned_order=row["pinned_order"],
        unread_mark=row["unread_mark"],
    )
