"""Dialogs, and the hash by which a client tells that its list is still right.

*Spec: Dialogs; Pagination in the API*
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from zlib import crc32

from telesrv.domain.dialogs import ARCHIVE, Archive, Dialog, DialogPage
from telesrv.domain.drafts import Draft
from telesrv.domain.messages import MessageBox
from telesrv.domain.notify import DEFAULT, NotifySettings
from telesrv.domain.peers import Peer, PeerType
from telesrv.rpc.convert.drafts import draft_to_tl, draft_user_ids
from telesrv.rpc.convert.messages import user_ids_of
from telesrv.rpc.convert.notify import notify_settings_to_tl
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.tl import types

_64_BITS: Final = 2**64 - 1


def dialog_to_tl(
    dialog: Dialog,
    draft: Draft | None = None,
    notify: NotifySettings | None = None,
    ttl_period: int | None = None,
) -> types.Dialog:
    """Returns the chat as it stands in its owner's list, with the owner's draft and the time of its messages.

    *Spec: Dialogs*
    """
    return types.Dialog(
        pinned=dialog.pinned_order > 0,
        unread_mark=dialog.unread_mark,
        peer=peer_to_tl(dialog.peer),
        top_message=dialog.top_box_id,
        read_inbox_max_id=dialog.read_inbox_max_id,
        read_outbox_max_id=dialog.read_outbox_max_id,
        unread_count=dialog.unread_count,
        unread_mentions_count=0,
        unread_reactions_count=0,
        unread_poll_votes_count=0,
        notify_settings=notify_settings_to_tl(notify or DEFAULT),
        draft=None if draft is None else draft_to_tl(draft),
        folder_id=dialog.folder_id or None,
        ttl_period=ttl_period,
    )


def archive_to_tl(archive: Archive) -> types.DialogFolder:
    """Returns the archive as one entry among the pinned chats.

    *Spec: Folders (Peer folders)*
    """
    return types.DialogFolder(
        pinned=True,
        folder=types.Folder(id=ARCHIVE, title="Archive"),
        peer=peer_to_tl(archive.peer),
        top_message=archive.top_box_id,
        unread_muted_peers_count=archive.muted_chats,
        unread_unmuted_peers_count=archive.unread_chats,
        unread_muted_messages_count=archive.muted_messages,
        unread_unmuted_messages_count=archive.unread_messages,
    )


def dialog_user_ids(page: DialogPage) -> set[int]:
    """Returns every account that the page shows."""
    shown = user_ids_of(page.top_boxes.values())
    shown.update(dialog.peer.id for dialog in page.dialogs if dialog.peer.type is PeerType.USER)
    for draft in page.drafts.values():
        shown.update(draft_user_ids(draft))
    return shown


def list_hash(numbers: Iterable[int]) -> int:
    """Returns the hash of a list, as a signed 64-bit number.

    *Spec: Pagination in the API (Hash generation)*
    """
    value = 0
    for number in numbers:
        value ^= value >> 21
        value ^= value << 35 & _64_BITS
        value ^= value >> 4
        value = value + number & _64_BITS
    return value - 2**64 if value >> 63 else value


def messages_hash(boxes: Iterable[MessageBox]) -> int:
    """Returns the hash of a page of messages: their ids and when each was last edited."""
    return list_hash(number for box in boxes for number in (box.box_id, box.edit_date or 0))


def dialogs_hash(page: DialogPage, notify: Mapping[Peer, NotifySettings], periods: Mapping[int, int]) -> int:
    """Returns the hash of a list of dialogs: it covers what an answer shows of each, its users apart.

    Args:
        notify: the settings of those of the chats that have some.
        periods: after how long messages go, of the private chats where they do, by the other side.
    """
    numbers: list[int] = []
    for dialog in page.dialogs:
        box = page.top_boxes.get(dialog.top_box_id)
        draft = page.drafts.get(dialog.peer)
        numbers += (
            dialog.peer.id,
            dialog.top_box_id,
            0 if box is None else crc32(repr((box.text, box.entities, box.flags, box.media_unread)).encode()),
            (box.edit_date if box is not None else None) or 0,
            dialog.read_inbox_max_id,
            dialog.read_outbox_max_id,
            dialog.unread_count,
            dialog.pinned_order,
            int(dialog.unread_mark),
            dialog.folder_id,
            0 if draft is None else crc32(repr(draft).encode()),
            crc32(repr(notify[dialog.peer]).encode()) if dialog.peer in notify else 0,
            periods.get(dialog.peer.id, 0) if dialog.peer.type is PeerType.USER else 0,
        )
    return list_hash(numbers)
