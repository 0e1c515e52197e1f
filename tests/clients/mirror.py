"""What one device knows of one chat, kept from its updates: plain data, so that devices can be compared.

Runs in every client environment, so it needs only the standard library and reads updates by their class
names, which Telethon and the pyrogram family share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

SERVICE_USER_ID = 777000


class Mirror:
    """The messages and read marks of a device, rebuilt from updates alone."""

    def __init__(self) -> None:
        self.messages: dict[int, dict[str, Any]] = {}
        self.read_inbox = 0
        self.read_outbox = 0
        self.duplicates: list[int] = []
        self.others: list[str] = []
        self._changed = asyncio.Condition()

    def note(self, message: Any) -> None:
        """Takes a message that was pushed or fetched; service notifications stand in a chat of their own."""
        if message.peer_id.user_id == SERVICE_USER_ID:
            return
        if message.id in self.messages:
            self.duplicates.append(message.id)
        self.messages[message.id] = describe(message)

    def note_sent(self, message_id: int, text: str, reply_to: int | None) -> None:
        """Takes a message of this device, of which a client gets no update."""
        self.messages[message_id] = {"out": True, "text": text, "reply_to": reply_to}

    def apply(self, update: Any) -> None:
        """Takes one update; those that say nothing of messages are only counted."""
        name = type(update).__name__
        if name == "UpdateNewMessage":
            self.note(update.message)
        elif name == "UpdateReadHistoryInbox":
            self.read_inbox = max(self.read_inbox, update.max_id)
        elif name == "UpdateReadHistoryOutbox":
            self.read_outbox = max(self.read_outbox, update.max_id)
        else:
            self.others.append(name)

    async def changed(self) -> None:
        """Wakes those who wait for a condition."""
        async with self._changed:
            self._changed.notify_all()

    async def wait(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> bool:
        """Waits until *condition* holds; False when it does not within a bound that only a failure
        reaches."""
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(condition), timeout_s)
            except TimeoutError:
                return False
        return True

    def snapshot(self) -> dict[str, Any]:
        """Returns plain data, equal on every device of an account that has missed nothing."""
        return {
            "messages": {str(key): self.messages[key] for key in sorted(self.messages)},
            "read_inbox": self.read_inbox,
            "read_outbox": self.read_outbox,
        }


def said(message: Any) -> str:
    """Returns the text of a message, or what a service message tells of."""
    action = getattr(message, "action", None)
    return message.message if action is None else type(action).__name__


def describe(message: Any) -> dict[str, Any]:
    """Returns what a message says, as plain data."""
    reply_to = getattr(message, "reply_to", None)
    return {
        "out": bool(message.out),
        "text": said(message),
        "reply_to": None if reply_to is None else reply_to.reply_to_msg_id,
    }
