"""How a message that waits stands in its row, and in the event that shows it.

*Spec: Scheduled messages*
"""

from __future__ import annotations

from typing import Any, Final

from telesrv.domain.origin import Origin
from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import ScheduledMessage
from telesrv.domain.updates import Event, EventKind, NewEvent
from telesrv.store.boxes import (
    entities_from_json,
    entities_to_json,
    fwd_from_json,
    fwd_to_json,
    quote_to_json,
    reply_to_of,
)
from telesrv.store.pool import Record

COLUMNS: Final = """s.owner_user_id, s.scheduled_id, s.peer_type, s.peer_id, s.random_id, s.digest,
    s.schedule_date, s.text, s.entities, s.silent, s.noforwards, s.reply_to_box_id, s.reply_quote, s.fwd,
    s.edit_date, s.state"""


def scheduled_to_json(message: ScheduledMessage) -> dict[str, Any]:
    """Returns a snapshot of a message that waits, without what only the server needs."""
    reply_to = message.reply_to
    return {
        "owner": message.owner_user_id,
        "date": message.schedule_date,
        "text": message.text,
        "entities": entities_to_json(message.entities),
        "silent": message.silent,
        "noforwards": message.noforwards,
        "reply_to": reply_to.box_id if reply_to else None,
        "quote": quote_to_json(reply_to),
        "fwd": fwd_to_json(message.fwd),
        "edit_date": message.edit_date,
    }


def scheduled_from_event(event: Event) -> ScheduledMessage:
    """Returns the message whose snapshot an event carries."""
    if event.peer is None or event.payload is None:
        raise ValueError(f"event {event.pts} of {event.user_id} has no message")
    stored = event.payload
    reply_to = None if stored["reply_to"] is None else reply_to_of(stored["reply_to"], stored["quote"])
    return ScheduledMessage(
        owner_user_id=event.user_id,
        scheduled_id=event.box_id,
        peer=event.peer,
        random_id=0,
        digest=b"",
        schedule_date=stored["date"],
        text=stored["text"],
        entities=entities_from_json(stored["entities"]),
        silent=stored["silent"],
        noforwards=stored["noforwards"],
        reply_to=reply_to,
        fwd=fwd_from_json(stored["fwd"]),
        edit_date=stored["edit_date"],
    )


def shown_event(message: ScheduledMessage, date: int, origin: Origin) -> NewEvent:
    """Returns the event that shows a message that waits, as it stands now."""
    return NewEvent(
        message.owner_user_id,
        EventKind.SCHEDULED_MESSAGE,
        date,
        message.peer,
        message.scheduled_id,
        payload=scheduled_to_json(message),
        origin=origin,
    )


def message_from_row(row: Record) -> ScheduledMessage:
    """Returns the message of a row of `COLUMNS`."""
    reply_to_box_id = row["reply_to_box_id"]
    return ScheduledMessage(
        owner_user_id=row["owner_user_id"],
        scheduled_id=row["scheduled_id"],
        peer=Peer.user(row["peer_id"]),
        random_id=row["random_id"],
        digest=bytes(row["digest"]),
        schedule_date=row["schedule_date"],
        text=row["text"],
        entities=entities_from_json(row["entities"]),
        silent=row["silent"],
        noforwards=row["noforwards"],
        reply_to=None if reply_to_box_id is None else reply_to_of(reply_to_box_id, row["reply_quote"]),
        fwd=fwd_from_json(row["fwd"]),
        edit_date=row["edit_date"],
        waits=row["state"] == 0,
    )
