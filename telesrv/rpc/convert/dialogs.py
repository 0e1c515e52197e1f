"""Dialogs, and the hash by which a client tells that its list is still right.

Spec: Dialogs; Pagination in the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from telesrv.domain.dialogs import Dialog, DialogPage
from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import PeerType
from telesrv.rpc.convert.messages import user_ids_of
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.tl import types

_64_BITS: Final = 2**64 - 1


def dialog_to_tl(dialog: Dialog) -> types.Dialog:
    """Returns the chat as it stands in its owner's list.

    Spec: Dialogs.
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
        notify_settings=types.PeerNotifySettings(),
        folder_id=dialog.folder_id or None,
    )


def dialog_user_ids(page: DialogPage) -> set[int]:
    """Returns every account that the page shows."""
    shown = user_ids_of(page.top_boxes.values())
    shown.update(dialog.peer.id for dialog in page.dialogs if dialog.peer.type is PeerType.USER)
    return shown


def list_hash(numbers: Iterable[int]) -> int:
    """Returns the hash of a list, as a signed 64-bit number.

    Spec: Pagination in the API (Hash generation).
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


def dialogs_hash(page: DialogPage) -> int:
    """Returns the hash of a page of dialogs: it covers what an answer shows of each, its users apart."""
    numbers: list[int] = []
    for dialog in page.dialogs:
        box = page.top_boxes.get(dialog.top_box_id)
        numbers += (
            dialog.peer.id,
            dialog.top_box_id,
            (box.edit_date if box is not None else None) or 0,
            dialog.read_inbox_max_id,
            dialog.read_outbox_max_id,
            dialog.unread_count,
            dialog.pinned_order,
            int(dialog.unread_mark),
        )
    return list_hash(numbers)
