"""A device that runs kurigram or pyrogram, unmodified, in an environment of its own.

Reads one JSON command a line from standard input and answers each with one JSON line on standard output.
Arguments: port, the public key's n and e, framing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import pyrogram
from pyrogram import raw
from pyrogram.connection import connection as pyrogram_connection
from pyrogram.connection import transport as transports
from pyrogram.crypto import rsa

from tests.clients.mirror import Mirror, describe
from tests.clients.state import State

CODE = "12345"
FRAMINGS = {
    "abridged": "TCPAbridged",
    "full": "TCPFull",
    "intermediate": "TCPIntermediate",
    "obfuscated abridged": "TCPAbridgedO",
    "obfuscated intermediate": "TCPIntermediateO",
    "padded": "TCPIntermediatePadded",
}


def trust(n: int, e: int) -> None:
    """Makes the client accept the server's RSA key."""

    def tl_bytes(number: int) -> bytes:
        data = number.to_bytes((number.bit_length() + 7) // 8, "big")
        prefix = bytes([len(data)]) if len(data) < 254 else b"\xfe" + len(data).to_bytes(3, "little")
        return prefix + data + b"\0" * (-(len(prefix) + len(data)) % 4)

    digest = sha1(tl_bytes(n) + tl_bytes(e)).digest()
    fingerprint = int.from_bytes(digest[-8:], "little", signed=True)
    rsa.server_public_keys[fingerprint] = rsa.PublicKey(n, e)


class PyrogramPeer:
    """One device of one account."""

    def __init__(self, port: int, framing: str) -> None:
        self.mirror = Mirror()
        self.state = State()
        self.user_id = 0
        self.user: Any = None
        transport = getattr(transports, FRAMINGS[framing])
        options: dict[str, Any] = {}
        if hasattr(pyrogram_connection, "DataCenter"):  # pyrogram 2.0
            pyrogram_connection.DataCenter = lambda *_: ("127.0.0.1", port)
            pyrogram_connection.TCPAbridged = transport
        else:

            class Connection(pyrogram_connection.Connection):
                def __init__(self, **arguments: Any) -> None:
                    arguments["server_address"], arguments["port"] = "127.0.0.1", port
                    super().__init__(**arguments)

            options = {"connection_factory": Connection, "protocol_factory": transport}
        self.client = pyrogram.Client(
            "peer", api_id=1, api_hash="0" * 32, in_memory=True, device_model="pyrogram peer",
            sleep_threshold=0, workers=1, **options,
        )  # fmt: skip
        self._invoke = self.client.invoke
        self.client.invoke = self._listen
        self.client.add_handler(pyrogram.handlers.RawUpdateHandler(self._on_update))

    async def _on_update(self, client: Any, update: Any, users: Any, chats: Any) -> None:
        self.mirror.apply(update)
        self.state.apply(update)
        await self.mirror.changed()
        await self.state.changed()

    async def _listen(self, query: Any, *args: Any, **options: Any) -> Any:
        """Makes a call of the client's, and keeps what it did."""
        answer = await self._invoke(query, *args, **options)
        self.state.answered(query, answer)
        await self.state.changed()
        return answer

    async def log_in(self, phone: str, first_name: str = "") -> int:
        await self.client.connect()
        sent = await self.client.send_code(phone)
        answer = await self.client.sign_in(phone, sent.phone_code_hash, CODE)
        if not isinstance(answer, pyrogram.types.User):
            answer = await self.client.sign_up(phone, sent.phone_code_hash, first_name)
        self.user_id = self.state.user_id = answer.id
        await self.client.invoke(raw.functions.updates.GetState())
        self.client.me = await self.client.get_me()
        await self.client.initialize()
        return self.user_id

    async def import_contact(self, phone: str, first_name: str) -> int:
        contact = raw.types.InputPhoneContact(client_id=1, phone=phone, first_name=first_name, last_name="")
        answer = await self.client.invoke(raw.functions.contacts.ImportContacts(contacts=[contact]))
        return answer.imported[0].user_id

    async def send(self, user_id: int | str, text: str, reply_to: int | None = None) -> int:
        options: dict[str, Any] = {}
        if reply_to is not None:
            if hasattr(pyrogram.types, "ReplyParameters"):
                options["reply_parameters"] = pyrogram.types.ReplyParameters(message_id=reply_to)
            else:
                options["reply_to_message_id"] = reply_to
        message = await self.client.send_message(user_id, text, **options)
        self.mirror.note_sent(message.id, text, reply_to)
        await self.mirror.changed()
        return message.id

    async def read(self, user_id: int, max_id: int) -> None:
        peer = await self.client.resolve_peer(user_id)
        await self.client.invoke(raw.functions.messages.ReadHistory(peer=peer, max_id=max_id))
        self.mirror.read_inbox = max(self.mirror.read_inbox, max_id)

    async def history(self, user_id: int) -> dict[str, Any]:
        peer = await self.client.resolve_peer(user_id)
        found: dict[int, Any] = {}
        offset_id = 0
        while True:
            page = await self.client.invoke(
                raw.functions.messages.GetHistory(
                    peer=peer,
                    offset_id=offset_id,
                    offset_date=0,
                    add_offset=0,
                    limit=100,
                    max_id=0,
                    min_id=0,
                    hash=0,
                )
            )
            if not page.messages:
                return {str(key): found[key] for key in sorted(found)}
            for message in page.messages:
                found[message.id] = describe(message)
            offset_id = page.messages[-1].id

    async def dialog(self, user_id: int) -> dict[str, Any]:
        peer = await self.client.resolve_peer(user_id)
        answer = await self.client.invoke(
            raw.functions.messages.GetPeerDialogs(peers=[raw.types.InputDialogPeer(peer=peer)])
        )
        dialog = answer.dialogs[0]
        return {
            "top": dialog.top_message,
            "unread": dialog.unread_count,
            "read_inbox": dialog.read_inbox_max_id,
            "read_outbox": dialog.read_outbox_max_id,
        }

    async def pts(self) -> int:
        return (await self.client.invoke(raw.functions.updates.GetState())).pts

    async def wait_for_messages(self, count: int) -> bool:
        return await self.mirror.wait(lambda: len(self.mirror.messages) >= count)

    async def wait_for_read_outbox(self, max_id: int) -> bool:
        return await self.mirror.wait(lambda: self.mirror.read_outbox >= max_id)

    async def wait_for_read_inbox(self, max_id: int) -> bool:
        return await self.mirror.wait(lambda: self.mirror.read_inbox >= max_id)

    async def snapshot(self) -> dict[str, Any]:
        return self.mirror.snapshot()

    async def go_away(self) -> None:
        self._away_at = await self.client.invoke(raw.functions.updates.GetState())
        await self.client.terminate()
        await self.client.disconnect()

    async def come_back(self) -> None:
        await self.client.connect()
        state = self._away_at
        while True:
            answer = await self.client.invoke(
                raw.functions.updates.GetDifference(pts=state.pts, date=state.date, qts=state.qts)
            )
            name = type(answer).__name__
            if name == "DifferenceEmpty":
                break
            for message in answer.new_messages:
                self.mirror.note(message)
            for update in answer.other_updates:
                self.mirror.apply(update)
            if name == "Difference":
                break
            state = answer.intermediate_state
        await self.client.initialize()

    async def knows(self, count: int) -> bool:
        return await self.state.knows(count)

    async def comes_to(self, wanted: dict[str, Any]) -> dict[str, Any]:
        return await self.state.comes_to(wanted)

    async def edit(self, user_id: int, message_id: int, text: str) -> None:
        await self.client.edit_message_text(user_id, message_id, text)

    async def forward(self, user_id: int, from_user_id: int, message_ids: list[int]) -> list[int]:
        return [copy.id for copy in await self.client.forward_messages(user_id, from_user_id, message_ids)]

    async def delete(self, user_id: int, message_ids: list[int], revoke: bool) -> None:
        await self.client.delete_messages(user_id, message_ids, revoke=revoke)

    async def delete_history(self, user_id: int, revoke: bool) -> None:
        await self.client.delete_chat_history(user_id, revoke=revoke)

    async def pin(self, user_id: int, message_id: int) -> None:
        await self.client.pin_chat_message(user_id, message_id, both_sides=True)

    async def unpin(self, user_id: int, message_id: int) -> None:
        await self.client.unpin_chat_message(user_id, message_id)

    async def pin_dialog(self, user_id: int) -> None:
        peer = raw.types.InputDialogPeer(peer=await self.client.resolve_peer(user_id))
        await self.client.invoke(raw.functions.messages.ToggleDialogPin(peer=peer, pinned=True))

    async def archive(self, user_id: int) -> None:
        await self.client.archive_chats(user_id)

    async def save_draft(self, user_id: int, text: str) -> None:
        peer = await self.client.resolve_peer(user_id)
        await self.client.invoke(raw.functions.messages.SaveDraft(peer=peer, message=text))

    async def mark_unread(self, user_id: int) -> None:
        # What the client's own method sends is of another type than the schema has there.
        peer = raw.types.InputDialogPeer(peer=await self.client.resolve_peer(user_id))
        await self.client.invoke(raw.functions.messages.MarkDialogUnread(peer=peer, unread=True))

    async def block(self, user_id: int) -> None:
        await self.client.block_user(user_id)

    async def schedule(self, user_id: int, text: str, after_s: int) -> int:
        at = datetime.now() + timedelta(seconds=after_s)
        return (await self.client.send_message(user_id, text, schedule_date=at)).id

    async def send_scheduled(self, user_id: int, message_ids: list[int]) -> None:
        peer = await self.client.resolve_peer(user_id)
        await self.client.invoke(raw.functions.messages.SendScheduledMessages(peer=peer, id=message_ids))

    async def search(
        self, user_id: int, query: str, from_me: bool = False, pinned: bool = False
    ) -> list[str]:
        options: dict[str, Any] = {"from_user": "me"} if from_me else {}
        if pinned:
            options["filter"] = pyrogram.enums.MessagesFilter.PINNED
        found = self.client.search_messages(user_id, query, **options)
        return [message.text async for message in found]

    async def search_everywhere(self, query: str) -> list[str]:
        return [message.text async for message in self.client.search_global(query)]

    async def count(self, user_id: int) -> int:
        return await self.client.get_chat_history_count(user_id)

    async def dialogs(self, from_archive: bool | None) -> list[int]:
        return [dialog.chat.id async for dialog in self.client.get_dialogs(from_archive=from_archive)]

    async def users(self, user_ids: list[Any]) -> list[int]:
        return [user.id for user in await self.client.get_users(user_ids)]

    async def about(self, user_id: int | str) -> str | None:
        """Returns what its profile page says."""
        return (await self.client.get_chat(user_id)).bio

    async def add_contact(self, user_id: int, first_name: str) -> None:
        await self.client.add_contact(user_id, first_name)

    async def delete_contacts(self, user_ids: list[int]) -> None:
        await self.client.delete_contacts(user_ids)

    async def rename(self, first_name: str, last_name: str) -> None:
        await self.client.update_profile(first_name=first_name, last_name=last_name)

    async def take_username(self, username: str) -> None:
        await self.client.set_username(username)

    async def close(self) -> None:
        if self.client.is_initialized:
            await self.client.terminate()
        if self.client.is_connected:
            await self.client.disconnect()


async def main() -> None:
    """Serves commands until standard input ends."""
    port, n, e, framing = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    trust(n, e)
    peer = PyrogramPeer(port, framing)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: set[asyncio.Task[None]] = set()

    async def answer(command: dict[str, Any]) -> None:
        try:
            result: dict[str, Any] = {"value": await getattr(peer, command["do"])(*command["args"])}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": command["id"], **result}), flush=True)

    while line := await reader.readline():
        task = loop.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(main())
