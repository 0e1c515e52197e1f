"""Messages that are to be sent later.

*Spec: Scheduled messages*
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from telesrv.domain.errors import DomainError
from telesrv.domain.messages import Entity, ForwardHeader, ReplyTo
from telesrv.domain.peers import Peer
from telesrv.domain.snapshots import (
    entities_from_json,
    entities_to_json,
    fwd_from_json,
    fwd_to_json,
    quote_to_json,
    reply_to_of,
)

MAX_PER_CHAT: Final = 100
MAX_AHEAD_S: Final = 366 * 86_400
WHEN_ONLINE: Final = 0x7FFF_FFFE
"""The date by which clients mean: as soon as the other side is online."""


class ScheduleTooMuch(DomainError):
    """So many messages wait in this chat that no more may."""


class StatusPrivate(DomainError):
    """The other side's time online is not shown to who would wait for it."""


def scheduled_digest(digest: bytes) -> bytes:
    """Returns what a request is known by that is to be sent later, by what it is known by without a time.

    They differ, so that a random_id which was used for the one is never taken for the other.
    """
    return hashlib.sha256(b"later" + digest).digest()


@dataclass(frozen=True, slots=True)
class ScheduledMessage:
    """A message that waits for its time; its id counts apart from those of messages."""

    owner_user_id: int
    scheduled_id: int
    peer: Peer
    random_id: int
    digest: bytes
    schedule_date: int
    text: str
    entities: tuple[Entity, ...] = ()
    silent: bool = False
    noforwards: bool = False
    reply_to: ReplyTo | None = None
    fwd: ForwardHeader | None = None
    edit_date: int | None = None
    waits: bool = True
    """False: it was sent, deleted, or could not be sent."""


def scheduled_to_json(message: ScheduledMessage) -> dict[str, Any]:
    """Returns the snapshot of a message that waits which stands in events, without what only the server
    needs."""
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


def scheduled_from_json(snapshot: Mapping[str, Any], peer: Peer, scheduled_id: int) -> ScheduledMessage:
    """Returns the message that `scheduled_to_json` was given, as far as it is shown."""
    reply_to = None
    if snapshot["reply_to"] is not None:
        reply_to = reply_to_of(snapshot["reply_to"], snapshot["quote"])
    return ScheduledMessage(
        owner_user_id=snapshot["owner"],
        scheduled_id=scheduled_id,
        peer=peer,
        random_id=0,
        digest=b"",
        schedule_date=snapshot["date"],
        text=snapshot["text"],
        entities=entities_from_json(snapshot["entities"]),
        silent=snapshot["silent"],
        noforwards=snapshot["noforwards"],
        reply_to=reply_to,
        fwd=fwd_from_json(snapshot["fwd"]),
        edit_date=snapshot["edit_date"],
    )
