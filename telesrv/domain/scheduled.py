"""Messages that are to be sent later.

*Spec: Scheduled messages*
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from telesrv.domain.errors import DomainError
from telesrv.domain.messages import Entity, ForwardHeader, ReplyTo
from telesrv.domain.peers import Peer

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
