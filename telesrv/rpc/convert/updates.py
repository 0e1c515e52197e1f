"""Events of the log, as updates.

*Spec: Working with Updates*
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import PeerType
from telesrv.domain.updates import SHOWS_BOX, Event, EventKind, UpdatesState
from telesrv.domain.users import UserView
from telesrv.rpc.convert.messages import message_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.rpc.convert.users import usernames_to_tl
from telesrv.tl import types

Views: TypeAlias = Mapping[int, UserView]
Converter: TypeAlias = Callable[[Event, MessageBox | None, Views], "list[types.TypeUpdate]"]
Finder: TypeAlias = Callable[[Mapping[str, Any]], Iterable[int]]

_CONVERTERS: Final[dict[EventKind, Converter]] = {}
_NAMES: Final[dict[EventKind, Finder]] = {}

QTS: Final = 0
"""No secret chats: their counter stands still."""
UNORDERED: Final = 0
"""The seq of updates that are put in order by their pts alone, as all are here."""
SEQ: Final = 1
"""That of the last ordered update: it stands still."""


def state_to_tl(state: UpdatesState) -> types.updates.State:
    """Returns the state a client resumes from.

    *Spec: Working with Updates*
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
        box: the message of an event of `SHOWS_BOX`, as it stands now; None when it is gone.
        views: holds at least the accounts of ``event_user_ids``; the missing are left out.

    *Spec: Working with Updates*
    """
    converter = _converters().get(event.kind)
    return [] if converter is None else converter(event, box, views)


def converts(kind: EventKind) -> Callable[[Converter], Converter]:
    """Registers the decorated function as what gives events of *kind* their TL form, one for each kind.

    A function of a module of this package: all of them are loaded before the first event is shown.
    """

    def register(converter: Converter) -> Converter:
        if kind in _CONVERTERS:
            raise ValueError(f"{kind.name} has two converters")
        _CONVERTERS[kind] = converter
        return converter

    return register


def names(kind: EventKind) -> Callable[[Finder], Finder]:
    """Registers the decorated function as what finds the accounts that the payload of events of *kind*
    names, besides the event's peer."""

    def register(find: Finder) -> Finder:
        _NAMES[kind] = find
        return find

    return register


@cache
def _converters() -> dict[EventKind, Converter]:
    package = importlib.import_module("telesrv.rpc.convert")
    for module in pkgutil.iter_modules(package.__path__, "telesrv.rpc.convert."):
        importlib.import_module(module.name)
    return _CONVERTERS


def event_peer(event: Event) -> types.TypePeer:
    """Returns the peer of an event that must have one."""
    if event.peer is None:
        raise ValueError(f"event {event.pts} of {event.user_id} has no peer")
    return peer_to_tl(event.peer)


@converts(EventKind.NEW_MESSAGE)
def _new_message(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    if box is None:
        return []
    return [types.UpdateNewMessage(message=message_to_tl(box), pts=event.pts, pts_count=event.pts_count)]


@converts(EventKind.READ_INBOX)
def _read_inbox(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    return [
        types.UpdateReadHistoryInbox(
            peer=event_peer(event),
            max_id=event.box_id,
            still_unread_count=int((event.payload or {}).get("still_unread_count", 0)),
            pts=event.pts,
            pts_count=event.pts_count,
        )
    ]


@converts(EventKind.READ_OUTBOX)
def _read_outbox(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    return [
        types.UpdateReadHistoryOutbox(
            peer=event_peer(event), max_id=event.box_id, pts=event.pts, pts_count=event.pts_count
        )
    ]


@converts(EventKind.CONTACTS_RESET)
def _contacts_reset(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    return [types.UpdateContactsReset()]


@converts(EventKind.PEER_BLOCKED)
def _peer_blocked(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    blocked = bool((event.payload or {}).get("blocked"))
    return [types.UpdatePeerBlocked(peer_id=event_peer(event), blocked=blocked)]


@converts(EventKind.PEER_SETTINGS)
def _peer_settings(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    view = views.get(event.peer.id) if event.peer is not None else None
    gone = view is not None and view.user.deleted
    payload = {} if gone else event.payload or {}

    def shown(name: str) -> bool:
        return bool(payload.get(name))

    settings = types.PeerSettings(
        add_contact=shown("add_contact"),
        block_contact=shown("block_contact"),
        share_contact=shown("share_contact"),
        need_contacts_exception=shown("add_contact") and view is not None and view.phone_needs_exception,
    )
    return [types.UpdatePeerSettings(peer=event_peer(event), settings=settings)]


@converts(EventKind.USER_CHANGED)
def _user_changed(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    event_peer(event)
    view = views.get(event.peer.id) if event.peer is not None else None
    if view is None:
        return []
    user_id = view.user.user_id
    if view.user.deleted:
        return [types.UpdateUser(user_id=user_id)]
    return [
        types.UpdateUserName(
            user_id=user_id,
            first_name=view.first_name,
            last_name=view.last_name,
            usernames=usernames_to_tl(view),
        ),
        types.UpdateUser(user_id=user_id),
    ]


@converts(EventKind.PHONE_CHANGED)
def _phone_changed(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    view = views.get(event.peer.id) if event.peer is not None else None
    if view is None or view.user.deleted:
        return []
    visible = view.is_self or view.phone_visible
    if not visible and not (event.payload or {}).get("seen", True):
        return []
    return [types.UpdateUserPhone(user_id=view.user.user_id, phone=view.user.phone if visible else "")]


@converts(EventKind.ACCOUNT_DELETED)
def _account_deleted(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    event_peer(event)
    gone: list[types.TypeUpdate] = [types.UpdateUser(user_id=event.peer.id)] if event.peer else []
    if (event.payload or {}).get("listed"):
        gone.append(types.UpdateContactsReset())
    return gone


def carrier(pts: int, pts_count: int) -> types.UpdateDeleteMessages:
    """Returns a deletion of no message, which moves a client's pts and has no other effect.

    *Spec: Working with Updates*
    """
    return types.UpdateDeleteMessages(messages=[], pts=pts, pts_count=pts_count)


def pushed_updates(
    event: Event, box: MessageBox | None, views: Mapping[int, UserView]
) -> list[types.TypeUpdate]:
    """Returns the updates that take a client from pts - pts_count to pts: beside those that TL gives no pts
    stands a carrier.

    Args: as of ``event_updates``.

    *Spec: Working with Updates*
    """
    updates = event_updates(event, box, views)
    if any(hasattr(update, "pts") for update in updates):
        return updates
    return [*updates, carrier(event.pts, event.pts_count)]


def event_user_ids(event: Event, box: MessageBox | None) -> set[int]:
    """Returns every account that the updates of the event show."""
    shown = user_ids_of([box]) if box is not None and event.kind in SHOWS_BOX else set()
    if event.kind in SHOWS_BOX and box is None:
        return shown
    if event.peer is not None and event.peer.type is PeerType.USER:
        shown.add(event.peer.id)
    if event.payload:
        ids: Iterable[int] = event.payload.get("user_ids", ())
        shown.update(ids)
    _converters()
    find = _NAMES.get(event.kind)
    if find is not None and event.payload:
        shown.update(find(event.payload))
    return shown
