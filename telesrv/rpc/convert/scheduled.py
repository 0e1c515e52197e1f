"""Messages that wait for their time, and periods of chats.

*Spec: Scheduled messages; messages.setHistoryTTL*
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import Peer, PeerType
from telesrv.domain.scheduled import ScheduledMessage, scheduled_from_json
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.entities import entities_to_tl, mentioned_user_ids
from telesrv.rpc.convert.messages import fwd_to_tl, fwd_user_ids, reply_to_tl
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.rpc.convert.updates import Views, converts, event_peer, names
from telesrv.tl import types


def scheduled_to_tl(message: ScheduledMessage) -> types.Message:
    """Returns a message that waits; its date is when it will be sent.

    *Spec: Scheduled messages*
    """
    return types.Message(
        id=message.scheduled_id,
        out=True,
        silent=message.silent,
        noforwards=message.noforwards,
        from_scheduled=True,
        from_id=types.PeerUser(user_id=message.owner_user_id),
        peer_id=peer_to_tl(message.peer),
        reply_to=None if message.reply_to is None else reply_to_tl(message.reply_to),
        fwd_from=None if message.fwd is None else fwd_to_tl(message.fwd),
        date=message.schedule_date,
        message=message.text,
        entities=entities_to_tl(message.entities),
        edit_date=message.edit_date,
    )


def scheduled_user_ids(message: ScheduledMessage) -> set[int]:
    """Returns every account that the message shows."""
    shown = {message.owner_user_id, *mentioned_user_ids(message.entities)}
    if message.peer.type is PeerType.USER:
        shown.add(message.peer.id)
    if message.fwd is not None:
        shown |= fwd_user_ids(message.fwd)
    if message.reply_to is not None:
        shown.update(mentioned_user_ids(message.reply_to.quote_entities))
    return shown


@converts(EventKind.SCHEDULED_MESSAGE)
def _scheduled(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    if event.peer is None or event.payload is None:
        raise ValueError(f"event {event.pts} of {event.user_id} has no message")
    message = scheduled_from_json(event.payload, event.peer, event.box_id)
    return [types.UpdateNewScheduledMessage(message=scheduled_to_tl(message))]


@names(EventKind.SCHEDULED_MESSAGE)
def _named(payload: Mapping[str, Any]) -> Iterable[int]:
    owner = Peer.user(payload["owner"])
    return scheduled_user_ids(scheduled_from_json(payload, owner, 0))


@converts(EventKind.SCHEDULED_DELETED)
def _scheduled_deleted(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    payload = event.payload or {}
    return [
        types.UpdateDeleteScheduledMessages(
            peer=event_peer(event),
            messages=list(payload.get("ids", ())),
            sent_messages=list(payload["sent_ids"]) if payload.get("sent_ids") else None,
        )
    ]


@converts(EventKind.HISTORY_TTL)
def _history_ttl(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    period_s = int((event.payload or {}).get("period_s", 0))
    return [types.UpdatePeerHistoryTTL(peer=event_peer(event), ttl_period=period_s or None)]
