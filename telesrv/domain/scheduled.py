"""Messages that are to be sent later.

*Spec: Scheduled messages*
"""

from __future__ import annotations

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
