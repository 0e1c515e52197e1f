"""The load: accounts that write to each other from stock Telethon devices, and a ledger of what they may
rely on.

A send that was answered is in the ledger with its id. One that got an error or no answer is repeated with the
same random_id until it is answered, as every client does it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from telethon import functions, types
from telethon.errors import RPCError

from tests.clients.mirror import SERVICE_USER_ID
from tests.clients.telethon_peer import TelethonPeer
from tests.faults.world import until

SENDERS = 8
RECIPIENTS = 4
_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class Message:
    """A message as one account has it."""

    peer: int
    out: bool
    text: str


class Device(TelethonPeer):
    """One device of an account, and what its updates told it."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, connection_retries=None)
        self.name = name
        self.messages: dict[int, Message] = {}
        self.doubled: list[int] = []
        self.read_inbox: dict[int, int] = {}
        self.read_outbox: dict[int, int] = {}
        self.repeats = 0
        """Requests that were made again for want of an answer."""
        self._session_id = 0
        self._watch_differences()

    def _watch_differences(self) -> None:
        """Also takes the read marks of a difference, which Telethon drops as older than its final state."""
        call = self.client._call

        async def watch(*args: Any, **options: Any) -> Any:
            answer = await call(*args, **options)
            if isinstance(answer, types.updates.Difference | types.updates.DifferenceSlice):
                for update in answer.other_updates:
                    self._take(update)
            return answer

        self.client._call = watch

    async def _on_update(self, update: Any) -> None:
        self._take(update)

    def _take(self, update: Any) -> None:
        if isinstance(update, types.UpdateNewMessage):
            self._note(update.message)
        elif isinstance(update, types.UpdateReadHistoryInbox):
            _raise(self.read_inbox, update.peer.user_id, update.max_id)
        elif isinstance(update, types.UpdateReadHistoryOutbox):
            _raise(self.read_outbox, update.peer.user_id, update.max_id)

    def _note(self, message: Any) -> None:
        peer = message.peer_id.user_id
        if peer == SERVICE_USER_ID:
            return
        # What this device sent itself may come once more with a difference.
        if message.id in self.messages and not message.out:
            self.doubled.append(message.id)
        self.messages[message.id] = Message(peer, message.out, message.message)

    async def ask(self, request: Any) -> Any:
        """Returns the answer to the request, made again until there is one.

        Raises:
            RPCError: it is refused for what it is.
        """
        while True:
            try:
                return await self.client._sender.send(request)
            except RPCError as error:
                if 0 <= error.code < 500:
                    raise
            except OSError:
                if not self.client.is_connected():
                    await self.client.connect()
            self.repeats += 1
            await asyncio.sleep(_AGAIN_S)

    async def enter(self, phone: str, name: str) -> None:
        """Logs in, however often it takes."""
        while True:
            try:
                await self.log_in(phone, name)
                return
            except RPCError as error:
                if 0 <= error.code < 500:
                    raise
            except (OSError, ValueError):
                pass
            await asyncio.sleep(_AGAIN_S)

    async def catch_up_after_reconnect(self) -> bool:
        """Does what clients do on new_session_created and Telethon does not: asks for the difference.

        Returns False, and asks for nothing, when the session is the one it was: pushes must have sufficed.
        """
        known, self._session_id = self._session_id, self.client._sender._state.id
        if known in (0, self._session_id):
            return False
        await self.client.catch_up()
        return True

    async def fetch(self, above_id: int) -> tuple[dict[int, Message], dict[int, Any]]:
        """Asks the server for the messages above an id and for the dialogs, by peer."""
        dialogs = {
            dialog.id: dialog.dialog
            async for dialog in self.client.iter_dialogs()
            if dialog.id != SERVICE_USER_ID
        }
        messages = {}
        for peer in dialogs:
            async for message in self.client.iter_messages(peer, min_id=above_id, wait_time=0):
                messages[message.id] = Message(peer, message.out, message.message)
        return messages, dialogs

    async def difference(self, pts: int) -> tuple[list[tuple[int, Message]], int]:
        """Asks for all that came after *pts*: the new messages, each as often as it comes, and the new
        pts."""
        messages: list[tuple[int, Message]] = []
        while True:
            answer = await self.ask(functions.updates.GetDifferenceRequest(pts, date=int(time.time()), qts=0))
            if isinstance(answer, types.updates.DifferenceEmpty):
                return messages, pts
            messages += (
                (m.id, Message(m.peer_id.user_id, m.out, m.message))
                for m in answer.new_messages
                if m.peer_id.user_id != SERVICE_USER_ID
            )
            if isinstance(answer, types.updates.Difference):
                return messages, answer.state.pts
            pts = answer.intermediate_state.pts


@dataclass(slots=True)
class Sent:
    """A message that its sender was told is sent."""

    lane: str
    number: int
    peer: int
    box_id: int
    text: str


@dataclass(eq=False)
class Account:
    """A phone, its devices, and what it has sent and is to receive."""

    phone: str
    name: str
    devices: list[Device] = field(default_factory=list)
    user_id: int = 0
    peers: dict[int, Any] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    owed: list[str] = field(default_factory=list)
    """Texts that others were told are sent to this account."""
    read: dict[int, int] = field(default_factory=dict)
    """Up to where it was told that it has read, by peer."""
    verified_id: int = 0
    """Messages up to this id were compared before."""
    verified_pts: int = 0
    """And the log up to this pts."""


class Load:
    """Senders that write to recipients, and recipients who read and now and then answer."""

    def __init__(self, port: int, seed: int, pause_s: float, senders: int, recipients: int) -> None:
        self._port = port
        self._random = Random(seed)
        self._pause_s = pause_s
        self._open = asyncio.Event()
        self._idle: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._lanes: list[str] = []
        self._by_user: dict[int, Account] = {}
        self.senders = [Account(f"1777{seed % 1000:03d}{n:04d}", f"S{n}") for n in range(senders)]
        self.recipients = [Account(f"1888{seed % 1000:03d}{n:04d}", f"R{n}") for n in range(recipients)]
        self.answered: Counter[str] = Counter()
        """Sends that were answered, by lane."""

    @property
    def accounts(self) -> list[Account]:
        """Senders and recipients."""
        return [*self.senders, *self.recipients]

    @property
    def devices(self) -> list[Device]:
        """Every device that stays."""
        return [device for account in self.accounts for device in account.devices]

    @property
    def repeats(self) -> int:
        """Requests that were made again for want of an answer."""
        return sum(device.repeats for device in self.devices)

    async def start(self) -> None:
        """Logs everybody in and makes them know each other; nobody writes yet."""
        for account in self.accounts:
            account.devices = [Device(self._port, f"{account.name}.1")]
        for account in self.recipients:
            account.devices.append(Device(self._port, f"{account.name}.2"))
        for account in self.accounts:
            for device in account.devices:
                await device.enter(account.phone, account.name)
                await device.catch_up_after_reconnect()
            account.user_id = account.devices[0].user_id
            account.verified_pts = await account.devices[0].pts()
            self._by_user[account.user_id] = account
        for these, others in ((self.senders, self.recipients), (self.recipients, self.senders)):
            contacts = [types.InputPhoneContact(n, o.phone, o.name, "") for n, o in enumerate(others)]
            for account in these:
                answer = await account.devices[0].ask(functions.contacts.ImportContactsRequest(contacts))
                account.peers = {u.id: types.InputPeerUser(u.id, u.access_hash) for u in answer.users}
                assert len(account.peers) == len(others)
        for account in self.senders:
            for lane in (f"{account.name}a", f"{account.name}b"):
                self._lanes.append(lane)
                self._run(self._write(account, lane, Random(self._random.random()), self._pause_s))
        for account in self.recipients:
            random = Random(self._random.random())
            self._run(self._write(account, account.name, random, 4 * self._pause_s))
            self._run(self._read(account, random, 8 * self._pause_s))

    async def close(self) -> None:
        """Ends every device."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(device.close() for device in self.devices))

    def resume(self) -> None:
        """Lets them write."""
        self._open.set()

    async def pause(self) -> None:
        """Returns when nobody writes any more and every request has been answered."""
        self._open.clear()
        await self._until("every request is answered", lambda: len(self._idle) == len(self._tasks))

    async def more(self, count: int) -> None:
        """Returns when each of the senders' lanes had *count* more sends answered."""
        goals = {lane: self.answered[lane] + count for lane in self._lanes}
        await self._until(
            f"every sender is answered {count} times more",
            lambda: all(self.answered[lane] >= goal for lane, goal in goals.items()),
        )

    async def last_word(self) -> None:
        """Has each account get one more message from each that it talks with."""
        await asyncio.gather(
            *(
                self._send(account, f"{account.name}-{peer}", peer, self._random.getrandbits(62))
                for account in self.accounts
                for peer in sorted(account.peers)
            )
        )

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        def checked() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            return condition()

        try:
            await until(what, checked)
        except AssertionError as error:
            busy = sorted(task.get_name() for task in self._tasks if task.get_name() not in self._idle)
            raise AssertionError(f"{error}; still busy: {', '.join(busy)}") from None

    def _run(self, work: Any) -> None:
        task = asyncio.create_task(work)
        task.set_name(f"{work.__name__} {len(self._tasks)}")
        self._tasks.append(task)

    async def _turn(self) -> None:
        if not self._open.is_set():
            task = asyncio.current_task()
            assert task is not None
            self._idle.add(task.get_name())
            await self._open.wait()
            self._idle.discard(task.get_name())

    async def _write(self, account: Account, lane: str, random: Random, pause_s: float) -> None:
        peers = sorted(account.peers)
        while True:
            await self._turn()
            await self._send(account, lane, random.choice(peers), random.getrandbits(62))
            await asyncio.sleep(random.uniform(0, 2 * pause_s))  # the load's own pace

    async def _send(self, account: Account, lane: str, peer: int, random_id: int) -> None:
        device = account.devices[0]
        number = self.answered[lane] + 1
        text = f"{lane} {number}"
        request = functions.messages.SendMessageRequest(account.peers[peer], text, random_id=random_id or 1)
        answer = await device.ask(request)
        device.messages[answer.id] = Message(peer, True, text)
        account.sent.append(Sent(lane, number, peer, answer.id, text))
        self._by_user[peer].owed.append(text)
        self.answered[lane] += 1

    async def _read(self, account: Account, random: Random, pause_s: float) -> None:
        """Reads chats on the account's last device."""
        device = account.devices[-1]
        peers = sorted(account.peers)
        while True:
            await self._turn()
            peer = random.choice(peers)
            max_id = max((i for i, m in device.messages.items() if m.peer == peer and not m.out), default=0)
            if max_id > account.read.get(peer, 0):
                await device.ask(functions.messages.ReadHistoryRequest(account.peers[peer], max_id))
                _raise(device.read_inbox, peer, max_id)
                account.read[peer] = max_id
            await asyncio.sleep(random.uniform(0, 2 * pause_s))  # the load's own pace


def _raise(marks: dict[int, int], peer: int, max_id: int) -> None:
    marks[peer] = max(marks.get(peer, 0), max_id)
