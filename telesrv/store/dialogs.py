"""Reading the owner's list of chats.

Guarantees: a page is an index seek; its top messages are read in one statement, whatever their number.

*Spec: Dialogs*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from telesrv.domain.dialogs import Archive, Dialog, DialogPage
from telesrv.domain.filters import DialogFilter
from telesrv.domain.messages import MAX_PAGE
from telesrv.domain.peers import MAX_ID, Peer, PeerType
from telesrv.store.boxes import SQL_GET, box_from_row
from telesrv.store.drafts import drafts_of
from telesrv.store.pool import Pool, Record

MAX_HASHED: Final = 10_000
_TOP: Final = (MAX_ID, MAX_ID, 0, 0)
"""Above every dialog."""

_COLUMNS: Final = """owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, read_inbox_max_id,
    read_outbox_max_id, folder_id, pinned_order, unread_mark"""

_OF_DIALOG: Final = ", ".join(f"d.{name.strip()}" for name in _COLUMNS.split(","))


# Until when some setting of the owner's mutes; which one is said where it is put in.
SQL_MUTE_UNTIL: Final = """
SELECT (n.settings->>'mute_until')::bigint FROM notify_settings n WHERE n.owner_user_id = $1"""


def _is_muted(now: str) -> str:
    """Whether the private chat of a dialog d is muted at the time in the parameter *now*, as a condition."""
    return f"""({now}::bigint < coalesce(
        ({SQL_MUTE_UNTIL} AND n.scope = 1 AND n.peer_type = 1 AND n.peer_id = d.peer_id),
        ({SQL_MUTE_UNTIL} AND n.scope = 2), 0))"""


def _in_filter(first: int) -> str:
    """Tells whether a private chat is in a filter, as a condition on a dialog d and the owner's contact c.

    It is when it is named, or of a kind that is taken and not excluded; the chat with oneself is one with a
    contact.

    Its parameters, from $*first* on: the users it names, those it excludes, contacts, non_contacts,
    exclude_read, exclude_archived, exclude_muted, the time by which it is judged what is muted.
    """
    named, excluded, contacts, others, read, archived, muted, now = (
        f"${number}" for number in range(first, first + 8)
    )
    return f"""(
        d.peer_type = 1 AND (
            d.peer_id = ANY({named}::bigint[])
            OR (NOT d.peer_id = ANY({excluded}::bigint[])
                AND CASE WHEN c.contact_user_id IS NOT NULL OR d.peer_id = d.owner_user_id
                    THEN {contacts}::boolean ELSE {others}::boolean END
                AND NOT ({read}::boolean AND d.unread_count = 0 AND NOT d.unread_mark)
                AND NOT ({archived}::boolean AND d.folder_id = 1)
                AND NOT ({muted}::boolean AND {_is_muted(now)}))))"""


_IN_FILTER: Final = _in_filter(6)
_IN_FILTER_TOTAL: Final = _in_filter(2)

# Reads dialogs downward from a place in the order of (date, box_id, peer) of their top messages.
SQL_PAGE: Final = f"""
SELECT {_COLUMNS} FROM dialogs
WHERE owner_user_id = $1
    AND (top_date, top_box_id, peer_type, peer_id) < ($2::int, $3::int, $4::smallint, $5::bigint)
    AND ($6::int IS NULL OR folder_id = $6) AND NOT ($7 AND pinned_order > 0)
ORDER BY top_date DESC, top_box_id DESC, peer_type DESC, peer_id DESC LIMIT $8
"""
# Reads dialogs of a filter downward from a place: those it names, and those its rules take in.
SQL_FILTER_PAGE: Final = f"""
SELECT {_OF_DIALOG} FROM dialogs d
LEFT JOIN contacts c ON c.owner_user_id = $1 AND c.contact_user_id = d.peer_id AND c.listed
WHERE d.owner_user_id = $1
    AND (d.top_date, d.top_box_id, d.peer_type, d.peer_id) < ($2::int, $3::int, $4::smallint, $5::bigint)
    AND {_IN_FILTER}
    AND NOT (d.peer_type = 1 AND d.peer_id = ANY($15::bigint[]))
ORDER BY d.top_date DESC, d.top_box_id DESC, d.peer_type DESC, d.peer_id DESC LIMIT $14
"""
# Counts the dialogs of a filter.
SQL_FILTER_TOTAL: Final = f"""
SELECT count(*) FROM dialogs d
LEFT JOIN contacts c ON c.owner_user_id = $1 AND c.contact_user_id = d.peer_id AND c.listed
WHERE d.owner_user_id = $1 AND {_IN_FILTER_TOTAL}
"""
# Reads the archive as one entry: how much of it is unread, muted or not, and its newest chat.
SQL_ARCHIVE: Final = f"""
WITH archived AS MATERIALIZED (
    SELECT d.peer_type, d.peer_id, d.top_date, d.top_box_id, d.unread_count,
        d.unread_count > 0 OR d.unread_mark AS unread, d.peer_type = 1 AND {_is_muted("$2")} AS muted
    FROM dialogs d WHERE d.owner_user_id = $1 AND d.folder_id = 1
)
SELECT count(*) FILTER (WHERE unread AND NOT muted) AS unread_chats,
    coalesce(sum(unread_count) FILTER (WHERE NOT muted), 0)::bigint AS unread_messages,
    count(*) FILTER (WHERE unread AND muted) AS muted_chats,
    coalesce(sum(unread_count) FILTER (WHERE muted), 0)::bigint AS muted_messages,
    (array_agg(peer_type ORDER BY top_date DESC, top_box_id DESC))[1] AS peer_type,
    (array_agg(peer_id ORDER BY top_date DESC, top_box_id DESC))[1] AS peer_id,
    (array_agg(top_box_id ORDER BY top_date DESC, top_box_id DESC))[1] AS top_box_id
FROM archived
"""
# Counts the dialogs of a folder, or all.
SQL_TOTAL: Final = """
SELECT count(*) FROM dialogs WHERE owner_user_id = $1 AND ($2::int IS NULL OR folder_id = $2)
"""
# Reads the pinned dialogs of a folder.
SQL_PINNED: Final = f"""
SELECT {_COLUMNS} FROM dialogs
WHERE owner_user_id = $1 AND folder_id = $2 AND pinned_order > 0
ORDER BY pinned_order DESC, peer_type, peer_id
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
        rules: DialogFilter | None = None,
        now: int = 0,
    ) -> DialogPage:
        """Returns dialogs below the place that the offsets name, newest first, at most 100.

        The offsets are those of the last dialog the client has: its top message's date and id, and its
        peer. A dialog that has moved up since is not given again, and none is skipped. *folder_id* None is
        every folder; the total counts pinned ones too. With *rules* the list is that of this filter, and its
        own pins are the pinned ones; what is muted *now* it may leave out.

        *Spec: messages.getDialogs; Offsets*
        """
        return await self._with_tops(
            owner,
            *await self._page(
                owner,
                folder_id,
                await self._place(owner, offset_date, offset_id, offset_peer),
                max(0, min(limit, MAX_PAGE)),
                exclude_pinned,
                rules,
                now,
            ),
        )

    async def whole(
        self,
        owner: int,
        *,
        folder_id: int | None = None,
        exclude_pinned: bool = False,
        rules: DialogFilter | None = None,
        now: int = 0,
    ) -> DialogPage:
        """Returns a whole list, as `page` has its pages: for its hash, at most 10,000 dialogs of it.

        *Spec: Pagination in the API (Hash generation)*
        """
        return await self._with_tops(
            owner,
            *await self._page(owner, folder_id, _TOP, MAX_HASHED, exclude_pinned, rules, now),
        )

    async def archive(self, owner: int, now: int) -> Archive | None:
        """Returns the archive as one entry among the pinned chats, None when nothing is in it. What is muted
        *now* is counted apart.

        *Spec: Folders (Peer folders)*
        """
        row = await self._pool.fetchrow(SQL_ARCHIVE, owner, now)
        if row is None or row["peer_id"] is None:
            return None
        return Archive(
            Peer(PeerType(row["peer_type"]), row["peer_id"]),
            row["top_box_id"],
            row["unread_chats"],
            row["unread_messages"],
            row["muted_chats"],
            row["muted_messages"],
        )

    async def _place(
        self, owner: int, offset_date: int, offset_id: int, offset_peer: Peer | None
    ) -> tuple[int, int, int, int]:
        """Returns the place in the order of dialogs that the offsets name."""
        if offset_date <= 0 and 0 < offset_id <= MAX_ID:
            offset_date = await self._pool.fetchval(SQL_DATE, owner, offset_id) or 0
        if not 0 < offset_date <= MAX_ID:
            return _TOP
        peer = (offset_peer.type, offset_peer.id) if offset_peer else (0, 0)
        return (offset_date, max(0, min(offset_id, MAX_ID)), *peer)

    async def _page(
        self,
        owner: int,
        folder_id: int | None,
        place: tuple[int, int, int, int],
        limit: int,
        exclude_pinned: bool,
        rules: DialogFilter | None,
        now: int,
    ) -> tuple[list[Record], int]:
        """Returns the rows of a page and how many the whole list has."""
        if rules is None:
            rows = await self._pool.fetch(SQL_PAGE, owner, *place, folder_id, exclude_pinned, limit)
            return rows, await self._pool.fetchval(SQL_TOTAL, owner, folder_id)
        given = [
            [peer.id for peer in rules.named if peer.type is PeerType.USER],
            [peer.id for peer in rules.excluded if peer.type is PeerType.USER],
            rules.contacts,
            rules.non_contacts,
            rules.exclude_read,
            rules.exclude_archived,
            rules.exclude_muted,
            now,
        ]
        pins = [peer.id for peer in rules.pinned if exclude_pinned and peer.type is PeerType.USER]
        rows = await self._pool.fetch(SQL_FILTER_PAGE, owner, *place, *given, limit, pins)
        return rows, await self._pool.fetchval(SQL_FILTER_TOTAL, owner, *given)

    async def pinned(self, owner: int, folder_id: int) -> DialogPage:
        """Returns the pinned dialogs of a folder, highest first.

        *Spec: messages.getPinnedDialogs*
        """
        rows = await self._pool.fetch(SQL_PINNED, owner, folder_id)
        return await self._with_tops(owner, rows, len(rows))

    async def for_peers(self, owner: int, peers: Iterable[Peer]) -> DialogPage:
        """Returns the owner's dialogs with *peers*, in their order. A peer without one is left out, but
        for its draft.

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
        page = await self._with_tops(owner, rows, len(rows))
        others = [peer for peer in wanted if peer not in found]
        return replace(page, drafts={**page.drafts, **await drafts_of(self._pool, owner, others)})

    async def folder_id(self, owner: int, peer: Peer) -> int:
        """Returns the folder in which the owner has the chat; 0, the main list, also when there is none."""
        rows = await self._pool.fetch(SQL_FOR_PEERS, owner, peer.type, [peer.id])
        return rows[0]["folder_id"] if rows else 0

    async def _with_tops(self, owner: int, rows: Collection[Record], total: int) -> DialogPage:
        dialogs = tuple(_dialog(row) for row in rows)
        tops = [dialog.top_box_id for dialog in dialogs if dialog.top_box_id]
        boxes = await self._pool.fetch(SQL_GET, owner, tops) if tops else []
        drafts = await drafts_of(self._pool, owner, [dialog.peer for dialog in dialogs])
        return DialogPage(dialogs, {row["box_id"]: box_from_row(row) for row in boxes}, total, drafts)


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
