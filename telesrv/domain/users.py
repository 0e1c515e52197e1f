"""Accounts, contacts, and what one account may see of another.

*Spec: User Authorization; Contacts*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from telesrv.domain.messages import Entity
from telesrv.domain.privacy import AccountFlags, PrivacyKey

DAY_S: Final = 86_400
DEFAULT_TTL_DAYS: Final = 365
NO_FLAGS: Final = AccountFlags(0)


@dataclass(frozen=True, slots=True)
class User:
    """One account as stored; times are unix seconds."""

    user_id: int
    phone: str
    """Digits only, no plus sign; empty for a deleted account and for 777000's own special number."""
    first_name: str
    last_name: str = ""
    username: str | None = None
    about: str = ""
    created_at: int = 0
    last_seen_at: int = 0
    """When the account was last online as far as PostgreSQL knows; Presence is newer. 0 if never."""
    deleted: bool = False
    birthday: Birthday | None = None
    flags: AccountFlags = NO_FLAGS
    ttl_days: int = DEFAULT_TTL_DAYS
    """After so many days without being seen the account is deleted."""


@dataclass(frozen=True, slots=True)
class Birthday:
    """A day of the year, and the year if the account tells it (else 0)."""

    day: int
    month: int
    year: int = 0


class Seen(IntEnum):
    """How roughly the viewer is told when an account was last seen."""

    EXACTLY = 0
    RECENTLY = 1
    WITHIN_WEEK = 2
    WITHIN_MONTH = 3
    LONG_AGO = 4


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether an account is online: until *online_until* if that is ahead, else last seen then."""

    online_until: int = 0
    last_seen_at: int = 0
    seen: Seen = Seen.EXACTLY
    """If not exactly, the times are 0: what the viewer may not know is not here."""
    by_viewer: bool = False
    """It is rough because the viewer hides their own times from the account."""

    def roughly(self, now: int, *, by_viewer: bool) -> Presence:
        """Returns what is left of it for somebody who may not know the times."""
        seen_at = max(self.last_seen_at, min(self.online_until, now))
        age_s = now - seen_at
        if not seen_at or age_s > 30 * DAY_S:
            return Presence(seen=Seen.LONG_AGO)
        if age_s <= 3 * DAY_S:
            seen = Seen.RECENTLY
        else:
            seen = Seen.WITHIN_WEEK if age_s <= 7 * DAY_S else Seen.WITHIN_MONTH
        return Presence(seen=seen, by_viewer=by_viewer)


@dataclass(frozen=True, slots=True)
class Contact:
    """An entry of the owner's address book; the names are the owner's own."""

    owner_user_id: int
    contact_user_id: int
    first_name: str
    last_name: str
    phone: str
    mutual: bool = False
    note: str = ""
    """What the owner wrote about the contact."""
    note_entities: tuple[Entity, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedContact:
    """A phone number without an account, by the names that an address book has for it."""

    phone: str
    first_name: str
    last_name: str
    date: int
    """When it was saved."""


@dataclass(frozen=True, slots=True)
class UserView:
    """All that an answer to one viewer may need of one account, read in one batch."""

    user: User
    viewer_user_id: int
    contact: Contact | None = None
    """The viewer's own address book entry for the account."""
    presence: Presence = Presence()
    phone_visible: bool = False
    blocked: bool = False
    """The viewer has blocked the account."""
    phone_shared: bool = False
    """The account may see the viewer's phone number."""
    bar_hidden: bool = False
    """The viewer closed the action bar of the chat."""
    phone_needs_exception: bool = False
    """The account would not see the viewer's phone number for being in the viewer's address book."""
    allowed: frozenset[PrivacyKey] = frozenset()
    """What the account's privacy rules allow the viewer; everything to itself."""

    @property
    def is_self(self) -> bool:
        return self.user.user_id == self.viewer_user_id

    @property
    def first_name(self) -> str:
        """The name the viewer sees: their own for a contact, else the account's."""
        return self.contact.first_name if self.contact else self.user.first_name

    @property
    def last_name(self) -> str:
        return self.contact.last_name if self.contact else self.user.last_name

    @property
    def about(self) -> str:
        """What the account says of itself, as far as the viewer may read it."""
        return self.user.about if self.may(PrivacyKey.ABOUT) else ""

    @property
    def birthday(self) -> Birthday | None:
        return self.user.birthday if self.may(PrivacyKey.BIRTHDAY) else None

    @property
    def maybe_forward_name(self) -> str | None:
        """What stands for the account in the header of what the viewer forwards of it; None: itself."""
        if self.may(PrivacyKey.FORWARDS):
            return None
        return f"{self.user.first_name} {self.user.last_name}".strip() or "Deleted Account"

    @property
    def read_dates_hidden(self) -> bool:
        """The viewer is not told when the account read a message of theirs.

        The account has to hide them, and they go with the time it was last seen.
        """
        hides = AccountFlags.HIDE_READ_MARKS in self.user.flags
        return hides and not self.may(PrivacyKey.STATUS_TIMESTAMP)

    def may(self, key: PrivacyKey) -> bool:
        """Tells whether the account's rules allow the viewer this."""
        return key in self.allowed


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """What a client says of itself in initConnection."""

    api_id: int = 0
    device_model: str = ""
    system_version: str = ""
    app_version: str = ""
    system_lang_code: str = ""
    lang_code: str = ""


@dataclass(frozen=True, slots=True)
class Authorization:
    """A device that is logged in: a permanent auth key bound to an account."""

    auth_key_id: int
    user_id: int
    hash: int
    """What a client names it by; not the key's id, and 0 never occurs in the store."""
    created_at: int
    active_at: int
    ip: str
    client: ClientInfo


@dataclass(frozen=True, slots=True)
class AuthKeyRecord:
    """An auth key as stored."""

    auth_key_id: int
    data: bytes
    """256 bytes."""
    created_at: int
    expires_at: int | None
    """None for a permanent key."""
    dc_id: int
    """The DC this key was made for, as the client sees it: 1 to 5."""
    perm_auth_key_id: int | None = None
    """For a temporary key, the permanent key bound to it, once it is."""
    first_salt: int = 0
    """The server salt that the key exchange gave the client, signed 64 bits; 0: none."""
    layer: int = 0
    """The last layer seen in invokeWithLayer; 0 before the first."""
    client: ClientInfo = ClientInfo()


@dataclass(frozen=True, slots=True)
class LoginCode:
    """A code that was made for one phone number and one auth key, to be delivered and never logged."""

    phone: str
    code: str = field(repr=False)
    phone_code_hash: str = field(repr=False)
    expires_at: int

    @property
    def length(self) -> int:
        return len(self.code)


class PhoneContact(NamedTuple):
    """An entry of an address book as it is imported, by its phone number."""

    client_id: int
    """By which the client knows it in the answer."""
    phone: str
    """As the client wrote it."""
    first_name: str
    last_name: str
    note: str = ""
    """What the owner wants to remember; empty: the note that is there stays."""
    note_entities: Sequence[Entity] = ()


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What became of an address book that was sent to the server."""

    imported: tuple[tuple[int, int], ...]
    """(user_id, client_id) of the entries that have an account."""
    retry: tuple[int, ...] = ()
    """client_ids of entries that were not looked at and may be sent again later."""


@dataclass(frozen=True, slots=True)
class MethodCalls:
    """How often clients called one method."""

    method: str
    layer: int
    client: str
    count: int
    last_seen_at: int
