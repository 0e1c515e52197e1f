"""The account-wide durable log of updates.

As in `messages`, records that are made by the thousand a second are values, though not frozen.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from telesrv.domain.messages import MessageBox
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import Peer

OUTBOX_BUCKETS: Final = 64
"""How many parts the outbox has; all pushes to one account are in one."""


def bucket_of(user_id: int) -> int:
    """Returns the outbox bucket of an account; it is stored, so it never changes."""
    return (user_id * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF) >> 58


class EventKind(IntEnum):
    """What an event says; the numbers are stored and never reused."""

    NOOP = 0
    """A pts that was taken and not used."""
    NEW_MESSAGE = 1
    """peer, box_id, random_id (sender only); the body is read from the box when it is shown."""
    READ_INBOX = 2
    """peer, box_id = the owner's new read_inbox_max_id; payload still_unread_count."""
    READ_OUTBOX = 3
    """peer, box_id = the owner's new read_outbox_max_id; date is when it was read."""
    PEER_BLOCKED = 4
    """peer; payload blocked."""
    CONTACTS_RESET = 5
    """The address book changed; payload user_ids whose entry changed."""
    PEER_SETTINGS = 6
    """peer; the action bar of that chat changed: payload a snapshot of the flags."""
    USER_CHANGED = 7
    """peer; name, username or another visible field of that account changed: it is shown as it is now."""
    EDIT_MESSAGE = 8
    """peer, box_id; the body is read from the box when it is shown."""
    DELETE_MESSAGES = 9
    """payload box_ids; covers as many pts as it names boxes. And unread: [peer type, peer id,
    read_inbox_max_id, unread_count] of each chat in which an unread message was deleted."""
    PINNED_MESSAGES = 10
    """peer; payload box_ids, pinned; covers as many pts as it names boxes."""
    CONTENTS_READ = 11
    """payload box_ids; covers as many pts as it names boxes."""
    DIALOG_UNREAD_MARK = 12
    """peer; payload unread."""
    DRAFT = 13
    """peer; payload a snapshot of the draft, empty when it was cleared."""
    DIALOG_PINNED = 14
    """peer; payload pinned, folder_id."""
    PINNED_DIALOGS = 15
    """payload folder_id, order: the pinned peers as [type, id], the highest first."""
    FOLDER_PEERS = 16
    """payload peers: [type, id, folder_id]; covers as many pts as it names peers."""
    DIALOG_FILTER = 17
    """payload id and a snapshot of the filter, null when it was deleted."""
    DIALOG_FILTER_ORDER = 18
    """payload order: filter ids."""
    DIALOG_FILTERS = 19
    """What holds for all filters changed, payload tags_enabled; the client reads them again."""
    NOTIFY_SETTINGS = 20
    """payload scope and a snapshot of the settings; peer for one chat's. Or payload reset: [scope, peer type,
    peer id] of each that has its default again, and user_ids whose chats are among them."""
    PRIVACY = 21
    """payload key, a snapshot of its rules, and user_ids that they name."""
    HISTORY_TTL = 22
    """peer; payload period_s, 0 when messages are kept."""
    SCHEDULED_MESSAGE = 23
    """peer, box_id = the id of the scheduled message; payload a snapshot of it."""
    SCHEDULED_DELETED = 24
    """peer; payload ids, sent_ids."""
    PHONE_CHANGED = 25
    """peer; the phone number of that account changed, or whether the owner may see it: shown as it is now.
    payload seen: whether the owner saw the old one; who sees none of them is shown nothing."""
    ACCOUNT_DELETED = 26
    """peer: that account is gone; payload listed: whether it was in the address book."""
    CHATS_DELETED = 27
    """As DELETE_MESSAGES, when chats went with their last message that the owner had pinned, archived or
    marked as unread; it may name no box, and covers one pts then. payload removed: [peer type, peer id,
    folder_id, whether pinned, whether marked] of each."""


SHOWS_BOX: Final = frozenset({EventKind.NEW_MESSAGE, EventKind.EDIT_MESSAGE})
"""The kinds that show the message of their box_id as it stands when shown; nothing when it is gone."""

DELETES: Final = frozenset({EventKind.DELETE_MESSAGES, EventKind.CHATS_DELETED})
"""The kinds that take messages away."""

_STATES: Final = (
    {EventKind.READ_INBOX},
    {EventKind.READ_OUTBOX},
    {EventKind.PEER_BLOCKED},
    {EventKind.PEER_SETTINGS},
    {EventKind.PINNED_MESSAGES},
    {EventKind.DIALOG_UNREAD_MARK, EventKind.CHATS_DELETED},
    {EventKind.DRAFT},
    {
        EventKind.DIALOG_PINNED,
        EventKind.PINNED_DIALOGS,
        EventKind.FOLDER_PEERS,
        EventKind.CHATS_DELETED,
    },
    {EventKind.DIALOG_FILTER, EventKind.DIALOG_FILTER_ORDER, EventKind.DIALOG_FILTERS},
    {EventKind.NOTIFY_SETTINGS},
    {EventKind.PRIVACY},
    {EventKind.HISTORY_TTL},
    {EventKind.SCHEDULED_MESSAGE, EventKind.SCHEDULED_DELETED},
    {EventKind.PHONE_CHANGED},
)
"""Of each state that clients keep, the kinds that change it by saying what it is now."""

LAST_ONE_HOLDS: Final[Mapping[EventKind, frozenset[EventKind]]] = {
    kind: frozenset[EventKind]().union(*(state for state in _STATES if kind in state))
    for kind in sorted(set[EventKind]().union(*_STATES))
}
"""Kinds of which a later event undoes an earlier one, and the kinds that it may undo: their pts must be in
the order in which the changes were made."""


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """One entry of the log. It covers the pts from *pts* - *pts_count* + 1 to *pts*."""

    user_id: int
    pts: int
    pts_count: int
    kind: EventKind
    date: int
    peer: Peer | None = None
    box_id: int = 0
    random_id: int = 0
    payload: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be logged, and the session that is not told of it because it knows."""

    user_id: int
    kind: EventKind
    date: int
    peer: Peer | None = None
    box_id: int = 0
    random_id: int = 0
    payload: Mapping[str, Any] | None = None
    origin: Origin = NOBODY
    """The session that is not told."""
    pts_count: int = 1
    """How many pts it covers: exactly as many things as it changes."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """How far a device has come."""

    pts: int
    date: int


@dataclass(frozen=True, slots=True)
class UpdatesState:
    """The highest contiguous committed pts of an account, and its unread total."""

    pts: int
    date: int
    unread_count: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """Contiguous events after a client's pts, and the boxes they speak of."""

    events: tuple[Event, ...]
    boxes: dict[int, MessageBox]
    """By box_id: the current body of each message that still exists."""
    state: UpdatesState
    """pts is that of the last event given."""
    final: bool
    """False when more is committed behind it."""


class OutboxRow(NamedTuple):
    """One push that is owed: event *pts* of *target_user_id*, to all its sessions but one.

    Rows sort by bucket, account and pts.
    """

    bucket: int
    target_user_id: int
    pts: int
    exclude_auth_key_id: int
    exclude_session_id: int
    attempts: int
    """How often it was claimed, this time included."""
    last_error: str | None = None


@dataclass(slots=True)
class OutboxItem:
    """A claimed row with its event and the box it refers to, if that still exists."""

    row: OutboxRow
    event: Event
    box: MessageBox | None = None


@dataclass(frozen=True, slots=True)
class OutboxStats:
    """How much is owed; *oldest_ms* is the creation time of the oldest row, 0 when there is none."""

    waiting: int
    leased: int
    failed: int
    oldest_ms: int


@dataclass(frozen=True, slots=True)
class Pushed:
    """How far an account's log has reached those of its sessions that are there."""

    pts: int
    """Everything up to this one was delivered; above it, some may not have been."""
    own: Mapping[Origin, Collection[int]]
    """The pts above it that a session is not told of, since it made them."""

    @classmethod
    def of(cls, head: int, owed: Mapping[Origin, Collection[int]]) -> Pushed:
        """Returns it for a log without a hole up to *head* of which *owed*, by origin, is not."""
        first = min((pts for some in owed.values() for pts in some), default=head + 1)
        return cls(min(head, first - 1), {origin: pts for origin, pts in owed.items() if origin != NOBODY})
