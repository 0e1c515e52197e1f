"""Every call that changes something about private chats, chosen at random as a client could make it.

What a call names is mostly what the device knows of, sometimes something that is not there: then it must be
refused by one of the names in `REFUSALS`, and nothing may have changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from telesrv.domain.scheduled import WHEN_ONLINE
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Replica

f: Any = functions
t: Any = types

REFUSALS: Final = frozenset(
    {
        "CHAT_FORWARDS_RESTRICTED",
        "CHAT_NOT_MODIFIED",
        "CONTACT_ID_INVALID",
        "CONTACT_REQ_MISSING",
        "DELETE_MESSAGES_FORBIDDEN",
        "EDIT_MESSAGES_FORBIDDEN",
        "ENTITY_BOUNDS_INVALID",
        "INPUT_USER_DEACTIVATED",
        "MESSAGE_AUTHOR_REQUIRED",
        "MESSAGE_EDIT_TIME_EXPIRED",
        "MESSAGE_ID_INVALID",
        "MESSAGE_NOT_MODIFIED",
        "PEER_HISTORY_EMPTY",
        "PEER_ID_INVALID",
        "PHONE_CODE_EXPIRED",
        "PHONE_NUMBER_OCCUPIED",
        "QUOTE_TEXT_INVALID",
        "PINNED_DIALOGS_TOO_MUCH",
        "REPLY_MESSAGE_ID_INVALID",
        "SCHEDULE_STATUS_PRIVATE",
        "USERNAME_NOT_MODIFIED",
        "USERNAME_OCCUPIED",
        "USER_IS_BLOCKED",
        "YOU_BLOCKED_USER",
    }
)
"""What may be answered to a call whose ground other calls have changed."""

WEIGHTS: Final = {
    "send": 22,
    "schedule": 5,
    "forward": 6,
    "edit": 7,
    "delete": 6,
    "delete_history": 1,
    "read": 9,
    "read_contents": 2,
    "pin": 5,
    "unpin_all": 1,
    "mark": 2,
    "draft": 3,
    "arrange": 3,
    "filters": 2,
    "block": 3,
    "contacts": 4,
    "profile": 3,
    "phone": 1,
    "privacy": 3,
    "switches": 2,
    "top_peers": 1,
    "notify": 2,
    "ttl": 2,
    "scheduled": 3,
    "presence": 3,
    "ask": 3,
}
"""How often each of the calls below is chosen."""

PRIVACY_KEYS: Final = (
    "StatusTimestamp",
    "ChatInvite",
    "PhoneCall",
    "PhoneP2P",
    "Forwards",
    "ProfilePhoto",
    "PhoneNumber",
    "AddedByPhone",
    "VoiceMessages",
    "About",
    "Birthday",
    "StarGiftsAutoSave",
    "NoPaidMessages",
    "SavedMusic",
)
"""What there are rules for."""

CODE: Final = "12345"
"""The login code of every account."""

WORDS: Final = ("hello", "where are you", "привет", "你好吗", "fine 🙂", "see you", "x" * 30)


@dataclass(frozen=True)
class ChangePhone:
    """Taking another number: a code is sent to it and given back, by two calls."""

    phone: str

    CONSTRUCTOR_NAME: ClassVar = "account.changePhone"

    async def by(self, device: Device) -> Any:
        """Returns the answer to the second call.

        Raises:
            Refused: one of them is answered by rpc_error.
        """
        sent = await device.call(
            f.account.SendChangePhoneCode(phone_number=self.phone, settings=t.CodeSettings())
        )
        return await device.call(
            f.account.ChangePhone(
                phone_number=self.phone, phone_code_hash=sent.phone_code_hash, phone_code=CODE
            )
        )


class Chooser:
    """Makes calls for a device out of what it knows."""

    def __init__(
        self, choose: random.Random, now: Callable[[], int], weights: Mapping[str, int] = WEIGHTS
    ) -> None:
        self._choose = choose
        self._now = now
        self._made: list[Callable[[Device, Replica, list[Device]], Any]] = []
        for name, weight in weights.items():
            self._made += [getattr(self, name)] * weight

    def call(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        """Returns a call that this device could make now."""
        return self._choose.choice(self._made)(device, known, everybody)

    # What calls are made of.

    def _flag(self, likely: float = 0.5) -> bool:
        return self._choose.random() < likely

    def _random_id(self) -> int:
        return self._choose.randrange(1, 2**62)

    def _text(self) -> str:
        return f"{self._choose.choice(WORDS)} {self._choose.randrange(1000)}"

    def _peer(self, device: Device, everybody: Sequence[Device]) -> Any:
        return device.peer(self._choose.choice(everybody))

    def _user(self, device: Device, everybody: Sequence[Device]) -> Any:
        peer = self._peer(device, [one for one in everybody if one.user_id != device.user_id])
        return t.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)

    def _ids(self, known: Replica, most: int, peer_id: int | None = None) -> list[int]:
        there = [
            box_id
            for box_id, message in known.messages.items()
            if peer_id is None or _chat(message) == peer_id
        ]
        ids = self._choose.sample(there, min(len(there), self._choose.randrange(1, most + 1)))
        if not ids or self._flag(0.03):
            ids.append(self._choose.choice([1, 2**31 - 1, 0, -1]))
        return ids

    def _phone(self) -> str:
        """Returns a number: of those that accounts begin with, or of those that they change theirs to."""
        return f"1555{self._choose.randrange(2)}00{self._choose.randrange(6)}"

    def _entities(self, device: Device, everybody: Sequence[Device]) -> Any:
        if self._flag(0.7):
            return None
        mention = t.InputMessageEntityMentionName(offset=0, length=2, user_id=self._user(device, everybody))
        return self._choose.choice([[t.MessageEntityBold(offset=0, length=4)], [mention]])

    # Messages.

    def send(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer, reply = self._peer(device, everybody), None
        if self._flag(0.2):
            answered = self._ids(known, 1, peer.user_id)[0]
            quote: dict[str, Any] = {}
            if answered in known.messages and self._flag():
                quote = {
                    "quote_text": getattr(known.messages[answered], "message", "")[:4],
                    "quote_offset": 0,
                }
            reply = t.InputReplyToMessage(reply_to_msg_id=answered, **quote)
        return f.messages.SendMessage(
            peer=peer,
            message=self._text(),
            random_id=self._random_id(),
            entities=self._entities(device, everybody),
            reply_to=reply,
            silent=self._flag(0.1),
            noforwards=self._flag(0.05),
            clear_draft=self._flag(0.2),
        )

    def schedule(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        return f.messages.SendMessage(
            peer=self._peer(device, everybody),
            message=self._text(),
            random_id=self._random_id(),
            schedule_date=self._later(),
        )

    def forward(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        source = self._peer(device, everybody)
        ids = self._ids(known, 4, source.user_id)
        return f.messages.ForwardMessages(
            from_peer=source,
            to_peer=self._peer(device, everybody),
            id=ids,
            random_id=[self._random_id() for _ in ids],
            drop_author=self._flag(0.2),
            silent=self._flag(0.2),
        )

    def edit(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        texts = [message for message in known.messages.values() if isinstance(message, types.Message)]
        own = [message for message in texts if message.out and message.fwd_from is None]
        peer, box_id = self._peer(device, everybody), 1
        if own:
            message = self._choose.choice(own)
            peer, box_id = device.peer(_chat(message)), message.id
        entities = self._entities(device, everybody)
        return f.messages.EditMessage(peer=peer, id=box_id, message=self._text(), entities=entities)

    def delete(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        return f.messages.DeleteMessages(id=self._ids(known, 5), revoke=self._flag())

    def delete_history(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer = self._peer(device, everybody)
        max_id = 0 if self._flag() else self._ids(known, 1, peer.user_id)[0]
        return f.messages.DeleteHistory(
            peer=peer, max_id=max(max_id, 0), just_clear=self._flag(), revoke=self._flag()
        )

    def read(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer = self._peer(device, everybody)
        max_id = 0 if self._flag(0.6) else max(self._ids(known, 1, peer.user_id)[0], 0)
        return f.messages.ReadHistory(peer=peer, max_id=max_id)

    def read_contents(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        return f.messages.ReadMessageContents(id=self._ids(known, 4))

    def pin(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer = self._peer(device, everybody)
        box_id = self._ids(known, 1, peer.user_id)[0]
        return f.messages.UpdatePinnedMessage(
            peer=peer, id=box_id, unpin=self._flag(0.4), pm_oneside=self._flag(0.3)
        )

    def unpin_all(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        return f.messages.UnpinAllMessages(peer=self._peer(device, everybody))

    def scheduled(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer = self._peer(device, everybody)
        waiting = [one.id for one in known.scheduled.values() if _chat(one) == peer.user_id]
        ids = self._choose.sample(waiting, min(len(waiting), 2)) or [99]
        moved = self._later()
        return self._choose.choice(
            [
                f.messages.SendScheduledMessages(peer=peer, id=ids),
                f.messages.DeleteScheduledMessages(peer=peer, id=ids),
                f.messages.EditMessage(peer=peer, id=ids[0], message=self._text(), schedule_date=moved),
            ]
        )

    def presence(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        return f.account.UpdateStatus(offline=self._flag())

    def _later(self) -> int:
        return WHEN_ONLINE if self._flag(0.3) else self._now() + self._choose.randrange(60, 4000)

    def ttl(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        period = self._choose.choice([0, 0, 600, 7200])
        if self._flag(0.2):
            return f.messages.SetDefaultHistoryTTL(period=period)
        return f.messages.SetHistoryTTL(peer=self._peer(device, everybody), period=period)

    # The list of chats.

    def mark(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer = t.InputDialogPeer(peer=self._peer(device, everybody))
        return f.messages.MarkDialogUnread(peer=peer, unread=self._flag())

    def draft(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        if self._flag(0.05):
            return f.messages.ClearAllDrafts()
        text = "" if self._flag(0.3) else self._text()
        return f.messages.SaveDraft(peer=self._peer(device, everybody), message=text)

    def arrange(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer, folder_id = self._peer(device, everybody), self._choose.randrange(2)
        some = self._choose.sample(everybody, self._choose.randrange(len(everybody)))
        named = t.InputDialogPeer(peer=peer)
        order = [t.InputDialogPeer(peer=device.peer(one)) for one in some]
        moved = [t.InputFolderPeer(peer=peer, folder_id=folder_id)]
        return self._choose.choice(
            [
                f.messages.ToggleDialogPin(peer=named, pinned=self._flag()),
                f.messages.ReorderPinnedDialogs(force=self._flag(), folder_id=folder_id, order=order),
                f.folders.EditPeerFolders(folder_peers=moved),
                f.messages.HidePeerSettingsBar(peer=peer),
            ]
        )

    def filters(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        number = self._choose.randrange(2, 6)
        filter_ = t.DialogFilter(
            id=number,
            title=t.TextWithEntities(text=self._text()[:12], entities=[]),
            contacts=self._flag(),
            pinned_peers=[],
            include_peers=[self._peer(device, everybody)],
            exclude_peers=[],
        )
        return self._choose.choice(
            [
                f.messages.UpdateDialogFilter(id=number, filter=filter_),
                f.messages.UpdateDialogFilter(id=number, filter=filter_),
                f.messages.UpdateDialogFilter(id=number),
                f.messages.UpdateDialogFiltersOrder(order=self._choose.sample(range(6), 5)),
                f.messages.ToggleDialogFilterTags(enabled=self._flag()),
            ]
        )

    # People.

    def block(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        others = [one for one in everybody if one.user_id != device.user_id]
        peer = self._peer(device, others)
        if self._flag(0.2):
            some = self._choose.sample(others, self._choose.randrange(2))
            return f.contacts.SetBlocked(id=[device.peer(one) for one in some], limit=10)
        return f.contacts.Block(id=peer) if self._flag(0.3) else f.contacts.Unblock(id=peer)

    def contacts(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        user = self._user(device, everybody)
        note = t.TextWithEntities(text=self._text()[:20], entities=[])
        added = f.contacts.AddContact(
            id=user,
            first_name=self._text()[:10],
            last_name="",
            phone="",
            add_phone_privacy_exception=self._flag(0.2),
            note=note if self._flag(0.3) else None,
        )
        return self._choose.choice(
            [
                added,
                added,
                f.contacts.DeleteContacts(id=[user]),
                f.contacts.UpdateContactNote(id=user, note=note),
                f.contacts.AcceptContact(id=user),
                f.contacts.DeleteByPhones(phones=[self._phone()]),
                f.contacts.ImportContacts(
                    contacts=[
                        t.InputPhoneContact(
                            client_id=number,
                            phone=self._phone(),
                            first_name=self._text()[:10],
                            last_name="",
                            note=note if self._flag(0.3) else None,
                        )
                        for number in range(self._choose.randrange(1, 4))
                    ]
                ),
            ]
        )

    def profile(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        number = self._choose.randrange(6)
        day = t.Birthday(day=1 + number, month=5)
        return self._choose.choice(
            [
                f.account.UpdateProfile(first_name=f"Name {number}"),
                f.account.UpdateProfile(about=f"about {number}"),
                f.account.UpdateUsername(username=f"username{number}" if self._flag(0.8) else ""),
                f.account.UpdateBirthday(birthday=day if self._flag(0.7) else None),
            ]
        )

    def phone(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        return ChangePhone(f"1555100{self._choose.randrange(6)}")

    def privacy(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        key = getattr(t, f"InputPrivacyKey{self._choose.choice(PRIVACY_KEYS)}")()
        allowed = t.InputPrivacyValueAllowUsers(users=[self._user(device, everybody)])
        rest = self._choose.choice(
            [
                t.InputPrivacyValueAllowAll(),
                t.InputPrivacyValueAllowContacts(),
                t.InputPrivacyValueDisallowAll(),
            ]
        )
        return f.account.SetPrivacy(key=key, rules=[allowed, rest] if self._flag() else [rest])

    def switches(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        settings = t.GlobalPrivacySettings(
            keep_archived_unmuted=self._flag(),
            keep_archived_folders=self._flag(),
            hide_read_marks=self._flag(0.3),
            archive_and_mute_new_noncontact_peers=self._flag(),
        )
        return self._choose.choice(
            [
                f.account.SetGlobalPrivacySettings(settings=settings),
                f.account.SetAccountTTL(ttl=t.AccountDaysTTL(days=self._choose.choice([30, 365]))),
            ]
        )

    def top_peers(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer = self._peer(device, everybody)
        category = t.TopPeerCategoryCorrespondents()
        return self._choose.choice(
            [
                f.contacts.ResetTopPeerRating(category=category, peer=peer),
                f.contacts.ToggleTopPeers(enabled=self._flag(0.8)),
                f.contacts.GetTopPeers(correspondents=True, offset=0, limit=10, hash=0),
            ]
        )

    def notify(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        if self._flag(0.1):
            return f.account.ResetNotifySettings()
        peer = self._choose.choice(
            [t.InputNotifyUsers(), t.InputNotifyPeer(peer=self._peer(device, everybody))]
        )
        settings = t.InputPeerNotifySettings(
            mute_until=self._choose.choice([None, 0, 2**31 - 1]), silent=self._choose.choice([None, True])
        )
        return f.account.UpdateNotifySettings(peer=peer, settings=settings)

    # What changes nothing.

    def ask(self, device: Device, known: Replica, everybody: list[Device]) -> Any:
        peer = self._peer(device, everybody)
        return self._choose.choice(
            [
                pinned_in(peer),
                f.messages.GetPeerDialogs(peers=[t.InputDialogPeer(peer=peer)]),
                f.updates.GetState(),
            ]
        )


def pinned_in(peer: Any) -> Any:
    """Returns the call that finds the pinned messages of a chat."""
    nothing = dict.fromkeys(
        ("min_date", "max_date", "offset_id", "add_offset", "max_id", "min_id", "hash"), 0
    )
    return f.messages.Search(peer=peer, q="", filter=t.InputMessagesFilterPinned(), limit=100, **nothing)


def _chat(message: Any) -> int:
    return int(message.peer_id.user_id)
