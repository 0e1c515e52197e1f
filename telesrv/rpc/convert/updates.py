"""Events of the log, as updates.

Spec: Working with Updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import PeerType
from telesrv.domain.updates import Event, EventKind, UpdatesState
from telesrv.domain.users import UserView
from telesrv.rpc.convert.messages import message_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.tl import types

QTS: Final = 0
"""No secret chats: their counter stands still."""
SEQ: Final = 1
"""Updates go out unordered (seq 0), so the number of the last ordered one stands still."""


def state_to_tl(state: UpdatesState) -> types.updates.State:
    """Returns the state a client resumes from.

    Spec: Working with Updates.
    """
    return types.updates.State(
        pts=state.pts, qts=QTS, date=state.date, seq=SEQ, unread_count=state.unread_count
    )


def event_updates(
    event: Event, box: MessageBox | None, views: Mapping[int, UserView]
) -> list[types.TypeUpdate]:
    """Returns the updates of an event, not counting the carrier; none when there is nothing left to show.

    Args:
        event: of the log of the account that the updates go to.
        box: the message of a NEW_MESSAGE event, as it stands now; None when it is gone.
        views: holds at least the accounts of ``event_user_ids``; the missing are left out.

    Spec: Working with Updates.
    """
    if event.kind is EventKind.NEW_MESSAGE and box is not None:
        return [types.UpdateNewMessage(message=message_to_tl(box), pts=event.pts, pts_count=event.pts_count)]
    if event.kind is EventKind.NOOP or event.kind is EventKind.NEW_MESSAGE:
        return []
    payload = event.payload or {}
    if event.kind is EventKind.CONTACTS_RESET:
        return [types.UpdateContactsReset()]
    if event.peer is None:
        raise ValueError(f"event {event.pts} of {event.user_id} has no peer")
    peer = peer_to_tl(event.peer)
    match event.kind:
        case EventKind.READ_INBOX:
            return [
                types.UpdateReadHistoryInbox(
                    peer=peer,
                    max_id=event.box_id,
                    still_unread_count=int(payload.get("still_unread_count", 0)),
                    pts=event.pts,
                    pts_count=event.pts_count,
                )
            ]
        case EventKind.READ_OUTBOX:
            return [
                types.UpdateReadHistoryOutbox(
                    peer=peer, max_id=event.box_id, pts=event.pts, pts_count=event.pts_count
                )
            ]
        case EventKind.PEER_BLOCKED:
            return [types.UpdatePeerBlocked(peer_id=peer, blocked=bool(payload.get("blocked")))]
        case EventKind.PEER_SETTINGS:
            return [types.UpdatePeerSettings(peer=peer, settings=_peer_settings(payload))]
        case EventKind.USER_CHANGED:
            return _user_changed(views.get(event.peer.id))
        case _:
            assert_never(event.kind)


def _peer_settings(payload: Mapping[str, Any]) -> types.PeerSettings:
    def shown(name: str) -> bool:
        return bool(payload.get(name))

    return types.PeerSettings(
        report_spam=shown("report_spam"),
        add_contact=shown("add_contact"),
        block_contact=shown("block_contact"),
        share_contact=shown("share_contact"),
        autoarchived=shown("autoarchived"),
    )


def _user_changed(view: UserView | None) -> list[types.TypeUpdate]:
    if view is None:
        return []
    user = view.user
    usernames: list[types.TypeUsername] = []
    if user.username:
        usernames.append(types.Username(username=user.username, active=True, editable=view.is_self))
    return [
        types.UpdateUserName(
            user_id=user.user_id,
            first_name=view.first_name,
            last_name=view.last_name,
            usernames=usernames,
        ),
        types.UpdateUser(user_id=user.user_id),
    ]


def pushed_updates(
    event: Event, box: MessageBox | None, views: Mapping[int, UserView]
) -> list[types.TypeUpdate]:
    """Returns the updates that take a client from pts - pts_count to pts: beside those that TL gives no pts
    stands a deletion of no message, which moves the pts and has no effect.

    Args: as of ``event_updates``.

    Spec: Working with Updates.
    """
    updates = event_updates(event, box, views)
    if any(hasattr(update, "pts") for update in updates):
        return updates
    carrier = types.UpdateDeleteMessages(messages=[], pts=event.pts, pts_count=event.pts_count)
    return [*updates, carrier]


def event_user_ids(event: Event, box: MessageBox | None) -> set[int]:
    """Returns every account that the updates of the event show."""
    shown = user_ids_of([box]) if box is not None and event.kind is EventKind.NEW_MESSAGE else set()
    if event.kind is EventKind.NEW_MESSAGE and box is None:
        return shown
    if event.peer is not None and event.peer.type is PeerType.USER:
        shown.add(event.peer.id)
    if event.kind is EventKind.CONTACTS_RESET and event.payload:
        ids: Iterable[int] = event.payload.get("user_ids", ())
        shown.update(ids)
    return shown
