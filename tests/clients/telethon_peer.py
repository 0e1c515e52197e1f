"""A device that runs Telethon, unmodified."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from telethon import TelegramClient, events, functions, types
from telethon.crypto import rsa
from telethon.network import ConnectionTcpFull
from telethon.sessions import MemorySession

from tests.clients.mirror import Mirror, describe

API_ID, API_HASH = 1, "0" * 32
CODE = "12345"


def trust(public_key: Path) -> None:
    """Makes Telethon accept the server's RSA key."""
    rsa.add_key(public_key.read_text(), old=False)


class TelethonPeer:
    """One device of one account."""

    def __init__(
        self,
        port: int,
        *,
        connection: Any = ConnectionTcpFull,
        proxy: Any = None,
        connection_retries: int | None = 600,
    ) -> None:
        """Nothing is opened yet; it knocks five times a second for as long as anything is waited for."""
        session = MemorySession()
        session.set_dc(2, "127.0.0.1", port)
        self.mirror = Mirror()
        self.user_id = 0
        self.client = TelegramClient(
            session, API_ID, API_HASH, connection=connection, proxy=proxy, device_model="telethon peer",
            request_retries=3, connection_retries=connection_retries, retry_delay=0.2,
            flood_sleep_threshold=0,
        )  # fmt: skip
        self.client.add_event_handler(self._on_update, events.Raw())

    async def _on_update(self, update: Any) -> None:
        self.mirror.apply(update)
        await self.mirror.changed()

    async def connect(self) -> None:
        """Connects without logging in."""
        await self.client.connect()

    async def log_in(self, phone: str, first_name: str = "") -> int:
        """Logs in, signing up when the phone has no account; returns the user_id."""
        await self.client.connect()
        sent = await self.client(
            functions.auth.SendCodeRequest(phone, API_ID, API_HASH, types.CodeSettings())
        )
        answer = await self.client(functions.auth.SignInRequest(phone, sent.phone_code_hash, CODE))
        if isinstance(answer, types.auth.AuthorizationSignUpRequired):
            answer = await self.client(
                functions.auth.SignUpRequest(phone, sent.phone_code_hash, first_name, "")
            )
        await self.client._on_login(answer.user)
        self.user_id = answer.user.id
        return self.user_id

    async def import_contact(self, phone: str, first_name: str) -> int:
        """Adds a phone to the address book; returns whose it is."""
        contact = types.InputPhoneContact(client_id=1, phone=phone, first_name=first_name, last_name="")
        answer = await self.client(functions.contacts.ImportContactsRequest([contact]))
        return answer.imported[0].user_id

    async def send(self, user_id: int, text: str, reply_to: int | None = None) -> int:
        """Sends a text; returns its id on this account."""
        message = await self.client.send_message(user_id, text, reply_to=reply_to)
        self.mirror.note_sent(message.id, text, reply_to)
        await self.mirror.changed()
        return message.id

    async def read(self, user_id: int, max_id: int) -> None:
        """Marks the chat read up to *max_id*."""
        peer = await self.client.get_input_entity(user_id)
        await self.client(functions.messages.ReadHistoryRequest(peer, max_id))
        self.mirror.read_inbox = max(self.mirror.read_inbox, max_id)

    def messages(self, chat: Any, **asked: Any) -> AsyncIterator[Any]:
        """Returns all messages that are asked for, without the second that the client lets pass between the
        pages of a long list."""
        found: AsyncIterator[Any] = self.client.iter_messages(chat, wait_time=0, **asked)
        return found

    async def history(self, user_id: int) -> dict[str, Any]:
        """Fetches the whole chat by pages, as `Mirror.snapshot` has its messages."""
        found = {}
        async for message in self.messages(user_id):
            found[message.id] = describe(message)
        return {str(key): found[key] for key in sorted(found)}

    async def dialog(self, user_id: int) -> dict[str, Any]:
        """Fetches the chat's line in the list."""
        async for dialog in self.client.iter_dialogs():
            if dialog.id == user_id:
                return {
                    "top": dialog.dialog.top_message,
                    "unread": dialog.dialog.unread_count,
                    "read_inbox": dialog.dialog.read_inbox_max_id,
                    "read_outbox": dialog.dialog.read_outbox_max_id,
                }
        raise AssertionError(f"no dialog with {user_id}")

    async def pts(self) -> int:
        """Asks the server for the account's pts."""
        return (await self.client(functions.updates.GetStateRequest())).pts

    async def wait_for_messages(self, count: int) -> bool:
        """Waits until the device knows *count* messages."""
        return await self.mirror.wait(lambda: len(self.mirror.messages) >= count)

    async def wait_for_read_outbox(self, max_id: int) -> bool:
        """Waits until the device saw that the other side read up to *max_id*."""
        return await self.mirror.wait(lambda: self.mirror.read_outbox >= max_id)

    async def wait_for_read_inbox(self, max_id: int) -> bool:
        """Waits until the device saw that its own account read up to *max_id*."""
        return await self.mirror.wait(lambda: self.mirror.read_inbox >= max_id)

    async def snapshot(self) -> dict[str, Any]:
        """Returns what the device knows."""
        return self.mirror.snapshot()

    async def go_away(self) -> None:
        """Drops the link and keeps the session."""
        await self.client.disconnect()

    async def come_back(self) -> None:
        """Connects again and catches up by updates.getDifference."""
        await self.client.connect()
        await self.client.catch_up()

    async def close(self) -> None:
        """Ends the device."""
        await self.client.disconnect()
