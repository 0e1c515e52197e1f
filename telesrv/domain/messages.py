"""Messages as every account has them: its own copy, under its own box_id.

Records that are made by the thousand a second are not frozen, since freezing makes that five times as slow;
they are values all the same, and nobody changes one.

*Spec: Working with Updates; Message text entities*
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from telesrv.domain.actions import Action
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import Peer

MAX_TEXT_CODE_POINTS: Final = 4096
MAX_PAGE: Final = 100
"""The most rows one history or difference page holds."""
MAX_CHANGED: Final = 1_000
"""The most messages that one call deletes or marks."""
EDIT_TIME_S: Final = 172_800
"""How long after it was sent a message to somebody else may be edited."""
READ_DATE_KEPT_S: Final = 7 * 86_400
"""How long after it was sent one is told when the other side read a message."""
PINNED: Final = 1
"""The bit of a box's flags that says that the message is pinned."""
FROM_SCHEDULED: Final = 2
"""The bit that says that it was sent at a time set before."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A styled range of a text; *offset* and *length* count UTF-16 code units."""

    kind: str
    """The TL constructor without its prefix, e.g. ``bold`` for messageEntityBold."""
    offset: int
    length: int
    argument: str | int | None = None
    """url, language, user_id (mentionName) or document_id (customEmoji); None for the others."""


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """What a message answers, in the owner's own ids."""

    box_id: int
    quote_text: str | None = None
    quote_entities: tuple[Entity, ...] = ()
    quote_offset: int | None = None


@dataclass(frozen=True, slots=True)
class ForwardHeader:
    """Where a forwarded message was first written."""

    date: int
    """When it was first sent."""
    from_user_id: int = 0
    """The first author; 0 when the author hides behind a name."""
    from_name: str | None = None
    saved_from: Peer | None = None
    """In one's own saved messages: the chat that it was taken from, and its id there."""
    saved_from_box_id: int = 0


@dataclass(slots=True, unsafe_hash=True)
class MessageBox:
    """The owner's copy of one message."""

    owner_user_id: int
    box_id: int
    """The message id the owner's clients see: positive int32, strictly increasing per owner."""
    peer: Peer
    """The dialog it stands in, from the owner's side."""
    from_user_id: int
    outgoing: bool
    message_id: int
    """The server's own global id; for tracing and keys only."""
    date: int
    text: str
    entities: tuple[Entity, ...] = ()
    silent: bool = False
    noforwards: bool = False
    reply_to: ReplyTo | None = None
    edit_date: int | None = None
    media: Mapping[str, Any] | None = None
    media_unread: bool = False
    reaction_unread: bool = False
    peer_box_id: int = 0
    """The other side's box_id of the same message; 0 when the other side has none."""
    flags: int = 0
    pts: int = 0
    """The owner's pts of the event that brought it."""
    random_id: int = 0
    """What its author sent it by, in the author's own box; 0 in the other."""
    expires_at: int | None = None
    """When it is deleted by itself; None: never."""
    fwd: ForwardHeader | None = None
    action: Action | None = None
    """What a service message tells of; it has no text, and is neither edited, forwarded nor pinned."""

    @property
    def pinned(self) -> bool:
        return bool(self.flags & PINNED)


@dataclass(frozen=True, slots=True)
class SendRequest:
    """One message to be sent, checked for form but not yet for rights."""

    sender_user_id: int
    peer: Peer
    random_id: int
    """Signed 64 bits, not 0; the same (sender, random_id) is the same message for ever."""
    text: str
    date: int
    entities: tuple[Entity, ...] = ()
    silent: bool = False
    noforwards: bool = False
    reply_to: ReplyTo | None = None
    """In the sender's own box_ids."""
    origin: Origin = NOBODY
    """The sending session."""
    digest: bytes = b""
    """SHA-256 of what the request asks for; a repeat with another digest is a conflict."""
    fwd: ForwardHeader | None = None
    flags: int = 0
    """Of both boxes from the beginning: FROM_SCHEDULED or nothing."""
    clear_draft: bool = False
    """Whether the sender's draft in this chat ends with it."""


@dataclass(slots=True, unsafe_hash=True)
class SentMessage:
    """What became of a send: the first and every repeated call give the same."""

    box: MessageBox
    pts: int
    pts_count: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """One readHistory."""

    owner: int
    peer: Peer
    max_box_id: int
    """Up to which box it was read, in the owner's ids; not positive: all of the chat."""
    date: int
    origin: Origin = NOBODY
    """The reading session."""


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """What readHistory moved."""

    pts: int
    """The reader's pts after it."""
    pts_count: int
    """0 when nothing moved."""


@dataclass(frozen=True, slots=True)
class Affected:
    """What a change of several messages did to the owner's log."""

    pts: int
    """The owner's pts after it."""
    pts_count: int
    """How many messages changed; 0 when none did."""
    more: bool = False
    """There is more to change: the same call again goes on."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of a chat, and the caller's copy of the service message that tells of it, if one does."""

    affected: Affected
    service: SentMessage | None = None


@dataclass(frozen=True, slots=True)
class Edited:
    """An edited message as its author has it, and what the edit was logged under."""

    box: MessageBox
    pts: int
    pts_count: int


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Messages newest first, and how many the whole chat has."""

    boxes: tuple[MessageBox, ...]
    total: int
