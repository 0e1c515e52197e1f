"""Changes of messages that exist: edited, deleted, pinned, their contents seen.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import Peer, PeerType
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.messages import message_to_tl
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.rpc.convert.updates import Views, converts, event_peer, names
from telesrv.tl import types


def _box_ids(event: Event) -> list[int]:
    return list((event.payload or {}).get("box_ids", ()))


@converts(EventKind.EDIT_MESSAGE)
def _edit(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    if box is None:
        return []
    return [types.UpdateEditMessage(message=message_to_tl(box), pts=event.pts, pts_count=event.pts_count)]


@converts(EventKind.DELETE_MESSAGES)
@converts(EventKind.CHATS_DELETED)
def _delete(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    """Behind the deletion stands, without a pts of its own, what it leaves unread: a client that never had
    the messages cannot know how many of them were counted. And of chats that went with their last message,
    that they are not pinned, archived or marked any more: they may come back.
    """
    updates: list[types.TypeUpdate] = [
        types.UpdateDeleteMessages(messages=_box_ids(event), pts=event.pts, pts_count=event.pts_count)
    ]
    for peer_type, peer_id, max_id, count in (event.payload or {}).get("unread", ()):
        updates.append(
            types.UpdateReadHistoryInbox(
                peer=peer_to_tl(Peer(PeerType(peer_type), peer_id)),
                max_id=max_id,
                still_unread_count=count,
                pts=event.pts,
                pts_count=0,
            )
        )
    for peer_type, peer_id, folder_id, pinned, marked in (event.payload or {}).get("removed", ()):
        peer = peer_to_tl(Peer(PeerType(peer_type), peer_id))
        named = types.DialogPeer(peer=peer)
        if marked:
            updates.append(types.UpdateDialogUnreadMark(peer=named))
        if pinned:
            updates.append(types.UpdateDialogPinned(folder_id=folder_id or None, peer=named))
        if folder_id:
            moved: list[types.TypeFolderPeer] = [types.FolderPeer(peer=peer, folder_id=0)]
            updates.append(types.UpdateFolderPeers(folder_peers=moved, pts=event.pts, pts_count=0))
    return updates


@names(EventKind.DELETE_MESSAGES)
@names(EventKind.CHATS_DELETED)
def _unread_chats(payload: Mapping[str, Any]) -> list[int]:
    chats = [*payload.get("unread", ()), *payload.get("removed", ())]
    return [chat[1] for chat in chats if chat[0] == PeerType.USER]


@converts(EventKind.PINNED_MESSAGES)
def _pinned(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    return [
        types.UpdatePinnedMessages(
            pinned=bool((event.payload or {}).get("pinned")),
            peer=event_peer(event),
            messages=_box_ids(event),
            pts=event.pts,
            pts_count=event.pts_count,
        )
    ]


@converts(EventKind.CONTENTS_READ)
def _contents_read(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    return [
        types.UpdateReadMessagesContents(
            messages=_box_ids(event), pts=event.pts, pts_count=event.pts_count, date=event.date
        )
    ]
