"""How a message that waits stands in its row, and the event that shows it.

*Spec: Scheduled messages*
"""

from __future__ import annotations

from typing import Final

from telesrv.domain.origin import Origin
from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import ScheduledMessage, scheduled_to_json
from telesrv.domain.snapshots import entities_from_json, fwd_from_json, reply_to_of
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.pool import Record

COLUMNS: Final = """s.owner_user_id, s.scheduled_id, s.peer_type, s.peer_id, s.random_id, s.digest,
    s.schedule_date, s.text, s.entities, s.silent, s.noforwards, s.reply_to_box_id, s.reply_quote, s.fwd,
    s.edit_date, s.state"""


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
