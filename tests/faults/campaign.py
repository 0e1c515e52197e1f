"""A campaign: load, a fault, and the proof that nothing came of it; again and again.

After each fault, with the load at rest: every send that was answered is there once for both sides, under the
id that was answered and in order; every device knows from its updates what a fresh login fetches, and the
difference since the last time says the same; no log has a gap; no push is owed or failed; the server logged
no bug.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.clients.telethon_peer import trust
from tests.faults.faults import Fault
from tests.faults.load import RECIPIENTS, SENDERS, Account, Device, Load, Message
from tests.faults.world import NeverHappened, World, until


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one fault cost."""

    fault: str
    detail: str
    sent: int
    """Sends that were answered from before the fault to after it."""
    repeats: int
    """Requests that were made again."""
    away_s: float
    """From the end of the fault until every sender was answered again."""
    equal_s: float
    """From the last message until every device knew everything."""

    def __str__(self) -> str:
        return (
            f"{self.fault} ({self.detail}): {self.sent} sent, {self.repeats} repeated, "
            f"answers after {self.away_s:.1f} s, devices equal after {self.equal_s:.1f} s"
        )


class Campaign:
    """Faults against one world under one load, in an order and with victims by a seed."""

    def __init__(
        self,
        world: World,
        seed: int,
        *,
        pause_s: float = 0.1,
        senders: int = SENDERS,
        recipients: int = RECIPIENTS,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.world = world
        self.seed = seed
        self._random = Random(seed)
        self.load = Load(world.server.port, seed, pause_s, senders, recipients)
        self._say = say
        self._lines = 0

    async def start(self) -> None:
        """Logs everybody in."""
        self._say("logging in")
        trust(self.world.server.public_key)
        await self.load.start()

    async def close(self) -> None:
        """Ends the load; the world goes on."""
        await self.load.close()

    def shuffled(self, faults: Sequence[Fault]) -> list[Fault]:
        """Returns the faults in the seed's order."""
        order = list(faults)
        self._random.shuffle(order)
        return order

    async def run(self, fault: Fault) -> Result:
        """Lets the fault happen under load and returns what it cost.

        Raises:
            AssertionError: a promise was not kept, or something never came back; the message says which.
        """
        world, load = self.world, self.load
        before, repeats = load.answered.total(), load.repeats
        self._say(f"{fault.name}: load")
        await world.copy_valkey()
        load.resume()
        await load.more(3)
        self._say(f"{fault.name}: under way")
        detail = await fault.action(world, self._random)
        over = time.monotonic()
        self._say(f"{fault.name}: waiting for answers")
        await load.more(1)
        away_s = time.monotonic() - over
        self._say(f"{fault.name}: waiting for the server to be whole")
        await world.settled()
        self._say(f"{fault.name}: the last words")
        await load.more(2)
        await load.pause()
        for device in load.devices:
            await device.catch_up_after_reconnect()
        await load.last_word()
        last = time.monotonic()
        self._say(f"{fault.name}: comparing")
        for account in load.accounts:
            for device in account.devices:
                await self._until_told(account, device)
        equal_s = time.monotonic() - last
        await asyncio.gather(*(self._compare(account) for account in load.accounts))
        self._say(f"{fault.name}: checking the store")
        await self._check_store()
        sent = load.answered.total() - before
        return Result(fault.name, detail, sent, load.repeats - repeats, away_s, equal_s)

    async def _until_told(self, account: Account, device: Device) -> None:
        """Returns when updates have told the device everything."""
        owed = set(account.owed) | {sent.text for sent in account.sent}

        def missing() -> set[str]:
            return owed - {message.text for message in device.messages.values()}

        def marks() -> dict[int, int]:
            return {peer: mark for peer, mark in account.read.items() if device.read_inbox.get(peer) != mark}

        try:
            await until("told", lambda: not missing() and not marks())
        except NeverHappened as error:
            lost = sorted(missing())
            text = f"was not told of {len(lost)} messages {lost[:5]}, read marks {marks()}"
            raise Broken(f"{error}: {device.name} {text}") from None
        if device.doubled:
            raise Broken(f"{device.name} was told twice of {device.doubled}")

    async def _compare(self, account: Account) -> None:
        """Compares every device, and the ledger, with what a fresh login fetches."""
        fresh = Device(self.world.server.port, f"{account.name} fresh")
        try:
            await fresh.enter(account.phone, account.name)
            messages, dialogs = await fresh.fetch(account.verified_id)
            told, pts = await fresh.difference(account.verified_pts)
            await fresh.client.log_out()
        finally:
            await fresh.close()
        self._check_ledger(account, messages)
        if len(told) != len(messages) or dict(told) != messages:
            what = _difference(dict(told), messages)
            raise Broken(
                f"the difference of {account.name} has {len(told)} of {len(messages)} messages: {what}"
            )
        for device in account.devices:
            known = {i: m for i, m in device.messages.items() if i > account.verified_id}
            if known != messages:
                raise Broken(f"{device.name} is not as a fresh login: {_difference(known, messages)}")
            for peer, dialog in dialogs.items():
                unread = sum(
                    m.peer == peer and not m.out and i > dialog.read_inbox_max_id
                    for i, m in device.messages.items()
                )
                known_marks = device.read_inbox.get(peer, 0), device.read_outbox.get(peer, 0), unread
                true = dialog.read_inbox_max_id, dialog.read_outbox_max_id, dialog.unread_count
                if known_marks != true:
                    raise Broken(
                        f"{device.name} has read marks and unread {known_marks} of {peer}, truly {true}"
                    )
        account.verified_id = max(messages, default=account.verified_id)
        account.verified_pts = pts
        account.sent.clear()
        account.owed.clear()

    def _check_ledger(self, account: Account, messages: dict[int, Message]) -> None:
        for sent in account.sent:
            if messages.get(sent.box_id) != Message(sent.peer, True, sent.text):
                found = messages.get(sent.box_id)
                raise Broken(f"{account.name} lost {sent}; there is {found}")
        texts = Counter(message.text for message in messages.values())
        if wrong := Counter(account.owed) + Counter(sent.text for sent in account.sent) - texts:
            raise Broken(f"{account.name} lost {sorted(wrong)[:5]}")
        if doubled := [text for text, count in texts.items() if count > 1]:
            raise Broken(f"{account.name} has twice {doubled[:5]}")
        last: dict[str, int] = {}
        for _, message in sorted(messages.items()):
            lane, number = message.text.split(" ")
            if int(number) <= last.get(lane, 0):
                raise Broken(f"{account.name} has {message.text} after number {last[lane]}")
            last[lane] = int(number)

    async def _check_store(self) -> None:
        world = self.world

        async def nothing_owed() -> bool:
            return await world.query("SELECT count(*) FROM dispatch_outbox") == 0

        await until("no push is owed", nothing_owed)
        if failed := await world.query("SELECT count(*) FROM dispatch_outbox_failed"):
            raise Broken(f"{failed} pushes failed for good")
        status, output = await world.admin("pts", "check", "--settle", "10", "--json")
        if status != 0:
            raise Broken(f"pts check: {output}")
        self._check_log()

    def _check_log(self) -> None:
        """Looks at what the server logged since the last time: an error with a traceback is a bug."""
        lines = self.world.server.log_text().splitlines()
        new, self._lines = lines[self._lines :], len(lines)
        for line in new:
            if "Traceback" in line and '"level": "error"' in line:
                event = json.loads(line)
                raise Broken(f"the server logged a bug: {event['event']}\n{event.get('exception')}")


def _difference(known: dict[int, Message], true: dict[int, Message]) -> str:
    missing = {i: m.text for i, m in true.items() if known.get(i) != m}
    beyond = {i: m.text for i, m in known.items() if true.get(i) != m}
    return f"missing {dict(list(missing.items())[:5])}, beyond {dict(list(beyond.items())[:5])}"
