"""What one device knows of its whole account, kept from updates and from the answers to its own calls.

Plain data, so that devices can be compared. Runs in every client environment, so it needs only the standard
library and reads TL objects by their class names, which Telethon and the pyrogram family share.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tests.clients.mirror import said

SERVICE_USER_ID = 777000
PATIENCE_S = 60.0
"""Only a failure waits so long."""


class State:
    """Messages of all chats, scheduled ones, how the list of chats is arranged, blocks, and the profile."""

    def __init__(self) -> None:
        self.messages: dict[int, dict[str, Any]] = {}
        self.scheduled: dict[int, str] = {}
        self.pins: dict[int, list[int]] = {0: [], 1: []}
        self.archived: set[int] = set()
        self.marks: set[int] = set()
        self.drafts: dict[int, str] = {}
        self.blocked: set[int] = set()
        self.user_id = 0
        self.profile: dict[str, Any] = {}
        self._changed = asyncio.Condition()

    def snapshot(self) -> dict[str, Any]:
        """Returns plain data that JSON leaves as it is."""
        return {
            "messages": {str(number): self.messages[number] for number in sorted(self.messages)},
            "scheduled": {str(number): self.scheduled[number] for number in sorted(self.scheduled)},
            "pins": [self.pins[0], self.pins[1]],
            "archived": sorted(self.archived),
            "marks": sorted(self.marks),
            "drafts": {str(user_id): self.drafts[user_id] for user_id in sorted(self.drafts)},
            "blocked": sorted(self.blocked),
            "profile": self.profile,
        }

    async def changed(self) -> None:
        """Wakes those who wait for a state."""
        async with self._changed:
            self._changed.notify_all()

    async def comes_to(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Waits until the state is *wanted*, or a bound is over; returns what it is then."""
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: self.snapshot() == wanted), PATIENCE_S)
        return self.snapshot()

    async def knows(self, count: int) -> bool:
        """Waits until there are *count* messages."""
        async with self._changed:
            try:
                await asyncio.wait_for(
                    self._changed.wait_for(lambda: len(self.messages) >= count), PATIENCE_S
                )
            except TimeoutError:
                return False
        return True

    def note(self, message: Any) -> None:
        """Takes a message in as it stands; service notifications are not compared."""
        if message.peer_id.user_id != SERVICE_USER_ID:
            self.messages[message.id] = described(message)

    def note_dialog(self, dialog: Any) -> None:
        """Takes in a line of the list of chats."""
        user_id = dialog.peer.user_id
        _put(self.archived, user_id, dialog.folder_id == 1)
        _put(self.marks, user_id, bool(dialog.unread_mark))
        self._draft(user_id, dialog.draft)

    def note_profile(self, user: Any) -> None:
        """Takes in the account's own user."""
        self.user_id = user.id
        self.profile = {
            "first_name": user.first_name,
            "last_name": user.last_name or "",
            "username": user.username,
        }

    def apply(self, update: Any) -> None:
        """Takes one update."""
        name = type(update).__name__
        if name in ("UpdateNewMessage", "UpdateEditMessage"):
            self.note(update.message)
        elif name == "UpdateDeleteMessages":
            for number in update.messages:
                self.messages.pop(number, None)
        elif name == "UpdatePinnedMessages":
            for number in update.messages:
                if number in self.messages:
                    self.messages[number]["pinned"] = bool(update.pinned)
        elif name == "UpdateNewScheduledMessage":
            self.scheduled[update.message.id] = update.message.message
        elif name == "UpdateDeleteScheduledMessages":
            for number in update.messages:
                self.scheduled.pop(number, None)
        elif name == "UpdateDialogPinned":
            self._pin(update.peer.peer.user_id, bool(update.pinned), update.folder_id or 0)
        elif name == "UpdatePinnedDialogs":
            self.pins[update.folder_id or 0] = [named.peer.user_id for named in update.order]
        elif name == "UpdateFolderPeers":
            for moved in update.folder_peers:
                self._move(moved.peer.user_id, moved.folder_id)
        elif name == "UpdateDialogUnreadMark":
            _put(self.marks, update.peer.peer.user_id, bool(update.unread))
        elif name == "UpdateDraftMessage":
            self._draft(update.peer.user_id, update.draft)
        elif name == "UpdatePeerBlocked":
            _put(self.blocked, update.peer_id.user_id, bool(update.blocked))
        elif name == "UpdateUserName" and update.user_id == self.user_id:
            usernames = [shown.username for shown in update.usernames]
            self.profile = {
                "first_name": update.first_name,
                "last_name": update.last_name,
                "username": usernames[0] if usernames else None,
            }

    def answered(self, call: Any, answer: Any) -> None:
        """Takes in what a call of this device did: there is no update of it for the device itself."""
        for update in getattr(answer, "updates", None) or []:
            self.apply(update)
        name = type(call).__name__
        if type(answer).__name__ == "UpdateShortSentMessage":
            self.messages[answer.id] = {
                "peer": call.peer.user_id, "out": True, "text": call.message, "edited": False,
                "pinned": False, "first_author": None,
            }  # fmt: skip
        elif name == "DeleteMessages":
            for number in call.id:
                self.messages.pop(number, None)
        elif name == "DeleteHistory":
            gone = [n for n, known in self.messages.items() if known["peer"] == call.peer.user_id]
            for number in gone:
                del self.messages[number]
        elif name == "ToggleDialogPin":
            self._pin(call.peer.peer.user_id, bool(call.pinned), 0)
        elif name == "MarkDialogUnread":
            _put(self.marks, call.peer.peer.user_id, bool(call.unread))
        elif name == "SaveDraft":
            self.drafts.pop(call.peer.user_id, None)
            if call.message:
                self.drafts[call.peer.user_id] = call.message
        elif name in ("Block", "Unblock"):
            _put(self.blocked, call.id.user_id, name == "Block")
        elif name in ("UpdateProfile", "UpdateUsername"):
            self.note_profile(answer)

    def _pin(self, user_id: int, pinned: bool, folder_id: int) -> None:
        pins = self.pins[folder_id]
        if user_id in pins:
            pins.remove(user_id)
        if pinned:
            pins.insert(0, user_id)

    def _move(self, user_id: int, folder_id: int) -> None:
        _put(self.archived, user_id, folder_id == 1)
        for pins in self.pins.values():
            if user_id in pins:
                pins.remove(user_id)

    def _draft(self, user_id: int, draft: Any) -> None:
        self.drafts.pop(user_id, None)
        if draft is not None and type(draft).__name__ != "DraftMessageEmpty":
            self.drafts[user_id] = draft.message


def described(message: Any) -> dict[str, Any]:
    """Returns what a message is, as plain data."""
    forwarded = getattr(message, "fwd_from", None)
    author = None if forwarded is None else forwarded.from_id
    return {
        "peer": message.peer_id.user_id,
        "out": bool(message.out),
        "text": said(message),
        "edited": getattr(message, "edit_date", None) is not None,
        "pinned": bool(getattr(message, "pinned", False)),
        "first_author": None if author is None else author.user_id,
    }


def _put(members: set[int], member: int, there: bool) -> None:
    if there:
        members.add(member)
    else:
        members.discard(member)
