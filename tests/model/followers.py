"""What one account's client knows: by following the updates, or by asking for everything afresh.

A `Replica` knows the chats and how they are arranged; a `Follower` knows besides how accounts are shown,
their profile pages, the address book, privacy rules and notification settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from telesrv.tl import functions, types
from tests.model.actions import PRIVACY_KEYS, pinned_in
from tests.rpc.arranged import Compared
from tests.rpc.chats import Device, Replica, compared, fresh

SHOWN = ("first_name", "last_name", "username", "phone", "contact", "mutual_contact", "deleted")
"""What is compared of an account as answers show it."""
ON_PAGE = ("about", "birthday", "note", "blocked", "private_forward_name")
"""What is compared of a profile page."""
BY_RULES = ("phone", "about", "birthday", "private_forward_name")
"""What may be hidden from who asks."""


@dataclass
class Known:
    """What is known beside the chats: the address book, accounts as they are shown, profile pages."""

    contacts: dict[int, bool] = field(default_factory=dict)
    contacts_changed: bool = False
    people: dict[int, dict[str, Any]] = field(default_factory=dict)
    pages: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Those that were asked for and of which no change was told since."""

    def learn(self, users: Iterable[Any]) -> None:
        """Takes the accounts that an answer shows over."""
        for user in users:
            self.people[user.id] = {name: getattr(user, name) or None for name in SHOWN}
            if not user.contact and user.id in self.pages:
                self.pages[user.id]["note"] = None  # it is of the address book

    def apply(self, update: Any) -> None:
        match update:
            case types.UpdateContactsReset():
                self.contacts_changed = True
            case types.UpdateUserName():
                username = update.usernames[0].username if update.usernames else None
                told = {"first_name": update.first_name, "last_name": update.last_name, "username": username}
                self.people[update.user_id] |= {name: value or None for name, value in told.items()}
            case types.UpdateUserPhone():
                self.people[update.user_id]["phone"] = update.phone or None
            case types.UpdatePeerBlocked() if update.peer_id.user_id in self.pages:
                self.pages[update.peer_id.user_id]["blocked"] = update.blocked
            case types.UpdateUser():
                self.pages.pop(update.user_id, None)  # a client asks for it again


class Follower(Replica):
    """A replica that follows what is beside the chats, too."""

    known: Known

    def learn(self, users: Iterable[Any]) -> None:
        users = list(users)
        super().learn(users)
        self.known.learn(users)

    def apply(self, update: Any) -> None:
        if isinstance(update, types.UpdatePrivacy) and isinstance(update.key, types.PrivacyKeyPhoneNumber):
            self.arranged.bars.clear()  # of chats that there are it is told, other ones are asked for
        if isinstance(update, types.UpdateDeleteMessages):
            self._forget_pages(set(update.messages))
        super().apply(update)
        self.known.apply(update)

    def _forget_pages(self, deleted: set[int]) -> None:
        """Drops the pages of those whose chat may have been empty for a while: nothing was told then."""
        left = {box_id: message.peer_id.user_id for box_id, message in self.messages.items()}
        for user_id in {left[box_id] for box_id in deleted if box_id in left}:
            last = max(box_id for box_id in deleted if left.get(box_id) == user_id)
            if not any(left[box_id] == user_id for box_id in left.keys() - deleted if box_id < last):
                self.known.pages.pop(user_id, None)


async def follower(device: Device, everybody: list[Device]) -> Follower:
    """Returns what a client knows that has just logged in and asked for everything."""
    asked = await fresh(device, everybody)
    replica = Follower(**{name: getattr(asked, name) for name in asked.__dataclass_fields__})
    replica.known = Known()
    book = (await device.call(functions.contacts.GetContacts(hash=0))).contacts
    replica.known.contacts = {entry.user_id: entry.mutual for entry in book}
    # Of others one hears in passing only, and of their changes not at all; of a chat that another device
    # began and emptied while one was away, nothing.
    chats = {message.peer_id.user_id for message in replica.messages.values()}
    told_of = {device.user_id, *chats, *replica.known.contacts}
    replica.names = {user_id: name for user_id, name in replica.names.items() if user_id in told_of}
    for other in everybody:
        peer = device.peer(other)
        found = await device.call(pinned_in(peer))
        here = (message for message in replica.messages.values() if message.peer_id.user_id == other.user_id)
        pinned = {message.id for message in here if getattr(message, "pinned", False)}
        assert {message.id for message in found.messages} == pinned
        if other.user_id in told_of:
            user = types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)
            page = await device.call(functions.users.GetFullUser(id=user))
            replica.known.learn(page.users)
            replica.known.pages[other.user_id] = {name: getattr(page.full_user, name) for name in ON_PAGE}
    for key in PRIVACY_KEYS:
        rules = await device.call(functions.account.GetPrivacy(key=getattr(types, f"InputPrivacyKey{key}")()))
        replica.privacy[f"PrivacyKey{key}"] = rules.rules
    targets: list[Any] = [types.InputNotifyUsers()]
    targets += [types.InputNotifyPeer(peer=device.peer(one)) for one in everybody]
    named: list[Any] = [types.NotifyUsers()]
    named += [types.NotifyPeer(peer=types.PeerUser(user_id=one.user_id)) for one in everybody]
    for target, peer in zip(targets, named, strict=True):
        settings = await device.call(functions.account.GetNotifySettings(peer=target))
        replica.notify[repr(peer)] = settings
    return replica


def compared_all(followed: Follower, asked: Follower) -> Iterator[Compared]:
    """Yields what following the updates and asking afresh must know alike."""
    yield from compared(followed, asked)
    known, new = followed.known, asked.known
    if known.contacts_changed:  # a client reads the address book again then
        known.contacts, known.contacts_changed = new.contacts, False
    yield "contacts", known.contacts, new.contacts
    yield "people", *_alike(known.people, new.people)
    yield (
        "pages",
        *_alike(
            known.pages, {user_id: new.pages[user_id] for user_id in known.pages if user_id in new.pages}
        ),
    )
    known.people |= deepcopy(new.people)
    known.pages = deepcopy(new.pages)
    yield "privacy", followed.privacy, asked.privacy
    default = types.PeerNotifySettings()
    yield "notify", {peer: followed.notify.get(peer, default) for peer in asked.notify}, asked.notify


def _alike(known: dict[int, dict[str, Any]], asked: dict[int, dict[str, Any]]) -> tuple[Any, Any]:
    """Returns what is to be compared of accounts: what others let one see, where one sees it both times.

    That somebody took one into the address book, and so lets one see more or less, is not told.
    """
    one: dict[int, dict[str, Any]] = {}
    other: dict[int, dict[str, Any]] = {}
    for user_id, new in asked.items():
        old = known.get(user_id, {})
        names = [name for name in new if name not in BY_RULES or None not in (old.get(name), new[name])]
        one[user_id] = {name: old.get(name) for name in names}
        other[user_id] = {name: new[name] for name in names}
    return one, other
