"""Accounts with two devices each over two processes, what each device knows, and the comparison.

Three ways of knowing must come to the same for every account: the pushes, from the first on; differences;
and a fresh login's answers. Every device besides lives as devices do: it gets pushes while it is there,
misses them while it is not, and asks for a difference when it is back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import asyncpg
import redis.asyncio

from telesrv import tl
from telesrv.clock import FakeClock
from telesrv.domain.errors import Unavailable
from telesrv.domain.updates import EventKind
from telesrv.domain.users import ClientInfo, User
from telesrv.rpc import Dispatcher, RpcConfig
from telesrv.rpc.pushes import Push
from telesrv.store import Store, StoreConfig
from telesrv.tl import functions, types
from tests.model.actions import CODE, REFUSALS, WEIGHTS, ChangePhone, Chooser
from tests.model.followers import Follower, compared_all, follower
from tests.rpc.arranged import differing
from tests.rpc.chats import Device, Refused, Server, Sessions
from tests.support.waiting import PATIENCE_S

ACCOUNTS = 4
MOST_GONE = 2
"""How many accounts are deleted: calls to them are refused."""
FLOOD, BUSY = 420, 500
RESERVATION_S = 60
"""Longer than any writer has."""
BREAK = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
CHECKED_EVERY = 100
LAST_EVENTS = """
SELECT pts, kind, peer_id, box_id, payload::text FROM user_update_events WHERE user_id = $1
ORDER BY pts DESC LIMIT $2
"""
KINDS = """
SELECT DISTINCT kind FROM user_update_events
"""
FIXED_IN_SHORT = frozenset({"id", "out", "date", "ttl_period"})
FIXED = FIXED_IN_SHORT | {"silent", "noforwards", "from_id", "peer_id", "reply_to", "fwd_from", "action"}
"""What stays as it was of a message that was sent; a short answer tells less of it."""
REMEMBERED = 100
"""How many of the last actions, and of the last events of an account, a failure tells of."""


@dataclass
class Living:
    """A device, what it knows, and whether it is there."""

    device: Device
    replica: Follower
    there: bool = True
    answered: set[int] = field(default_factory=set)
    """The pts that answers to its own calls have moved it by."""
    sent: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What answers to its own calls told of its messages, by their pts, but for what may change."""

    def heard(self, pushes: list[Push]) -> None:
        """Takes what was pushed; what it did itself it was told in the answer."""
        if not self.there:
            return
        for push in pushes:
            if push.pts <= self.replica.pts:
                continue
            if (push.exclude_auth_key_id, push.exclude_session_id) == (
                self.device.caller.auth_key_id,
                self.device.caller.session_id,
            ):
                moved = range(self.replica.pts + 1, push.pts + 1)
                assert self.answered.issuperset(moved), f"not pushed and not answered: {moved}"
                for update in push.update.updates:
                    if isinstance(update, types.UpdateNewMessage) and update.pts in self.sent:
                        told = self.sent.pop(update.pts)
                        assert told == {name: getattr(update.message, name) for name in told}
            self.replica.learn(push.update.users)
            for update in push.update.updates:
                self.replica.follow(update)


class World:
    """What the model test drives."""

    def __init__(
        self,
        servers: list[Server],
        seed: int,
        connection: Any,
        prefix: str,
        breaker: Any,
        weights: Mapping[str, int] = WEIGHTS,
        accounts: int = ACCOUNTS,
    ) -> None:
        self._accounts = accounts
        self.servers = servers
        self.clock = servers[0].clock
        self.choose = random.Random(seed)
        self.chooser = Chooser(self.choose, lambda: int(self.clock.time()), weights)
        self.everybody: list[Device] = []
        """A device of each account."""
        self.gone: list[Device] = []
        """One of each account that was deleted."""
        self.devices: list[Living] = []
        self.told: dict[int, Follower] = {}
        self.asked: dict[int, Follower] = {}
        self.log: list[str] = []
        self.done: dict[str, int] = {}
        self._keys = count(101)
        self._next_phone = 15_550_000
        self.steps = 0
        self._calls = 0
        self._connection = connection
        self._prefix = prefix
        self._breaker = breaker

    async def populate(self) -> None:
        """Makes the accounts, each with a device in each process."""
        users = [await self._sign_up() for _ in range(self._accounts)]
        devices = [[await self._log_in(user, server) for server in self.servers] for user in users]
        self.everybody = [mine[0] for mine in devices]
        for number, device in enumerate(self.everybody):
            for _ in range(number):
                await device.send(device, "so that the ids differ")
        await self._pushes()
        for mine in devices:
            await self._begin(mine)

    @property
    def known(self) -> list[Device]:
        """A device of each account that clients may name: those that were deleted, too."""
        return [*self.everybody, *self.gone]

    async def _sign_up(self) -> User:
        phone = self._next_phone
        self._next_phone += 1
        return await self.servers[0].store.accounts.sign_up(str(phone), f"Name {phone % 10}")

    async def _log_in(self, user: User, server: Server) -> Device:
        key = next(self._keys)
        await server.store.accounts.bind(key, user.user_id, "127.0.0.1", ClientInfo())
        return Device(server, user, key, key + 10_000, tl.LAYER)

    async def _afresh(self, device: Device) -> Follower:
        """Returns what a client knows that has just logged in."""
        known = await follower(device, self.known)
        for one in self.gone:  # who sees that it is gone shows no action bar
            known.arranged.bars.pop(one.user_id, None)
        return known

    async def _begin(self, devices: list[Device]) -> None:
        """Has the devices of one account follow from now on."""
        known = await self._afresh(devices[0])
        self.devices += [Living(device, deepcopy(known)) for device in devices]
        self.told[known.user_id], self.asked[known.user_id] = deepcopy(known), known

    async def step(self) -> None:
        """Does one thing: a call or several at once, or what happens to devices, processes and stores."""
        self.steps += 1
        chance = self.choose.random()
        if chance < 0.04:
            await self._toggle(self.choose.choice(self.devices))
        elif chance < 0.05:
            await self._pass_time(self.choose.choice([61, 700, 4000]))
        elif chance < 0.055:
            await self._flush()
        elif chance < 0.058 and len(self.gone) < MOST_GONE:
            await self._delete_account()
        elif chance < 0.10:
            await self._deliver()
        elif chance < 0.19:
            await self._at_once()
        elif chance < 0.20:
            await self._break()
        else:
            await self._call()
        if self.choose.random() < 0.2:
            self.clock.advance(1)

    async def check(self) -> None:
        """Asserts that everybody knows the same, however they came to know it."""
        await self._deliver()
        for living in self.devices:
            if not living.there:
                await self._toggle(living)
        asking = [self.choose.choice(self._of(device.user_id)).device for device in self.everybody]
        known = await asyncio.gather(*map(self._afresh, asking))
        for device, new in zip(asking, known, strict=True):
            asked = self.asked[device.user_id]
            await asked.catch_up(device, pts_limit=self.choose.choice([None, 3, 100]))
            ways = {"asked": asked, "told": self.told[device.user_id]}
            ways |= {
                f"device {living.device.caller.auth_key_id}": living.replica
                for living in self._of(device.user_id)
            }
            for way, replica in ways.items():
                if different := differing(compared_all(replica, new)):
                    told = [f"{way} of {device.user_id}:", *different, *await self._events_of(device.user_id)]
                    raise AssertionError("\n".join(told))
        accounts, gaps = await self.servers[0].store.gaps.find()
        assert gaps == [] and accounts >= self._accounts

    async def kinds(self) -> set[EventKind]:
        """Returns the kinds of all events that were logged."""
        return {EventKind(row["kind"]) for row in await self._breaker.fetch(KINDS)}

    async def _events_of(self, user_id: int) -> list[str]:
        """Returns the last events of an account, one line each, for whoever has to find out what happened."""
        rows = await self._breaker.fetch(LAST_EVENTS, user_id, REMEMBERED)
        return [
            f"{row['pts']} {EventKind(row['kind']).name} {row['peer_id']} {row['box_id']} {row['payload']}"
            for row in reversed(rows)
        ]

    def _of(self, user_id: int) -> list[Living]:
        return [living for living in self.devices if living.device.user_id == user_id]

    async def _call(self, living: Living | None = None) -> None:
        living = living or self.choose.choice(self.devices)
        method = self.chooser.call(living.device, living.replica, self.known)
        name = method.CONSTRUCTOR_NAME
        self._calls += 1
        number = self._calls
        self._note(f"call {number} {living.device.user_id}/{living.device.caller.auth_key_id} {method}")
        try:
            if isinstance(method, ChangePhone):
                answer = await method.by(living.device)
            else:
                answer = await living.device.call(method)
        except Refused as error:
            self._note(f"call {number} refused: {error}")
            if error.code == BUSY:
                living.there = False  # whatever became of the call
            else:
                assert error.type in REFUSALS or error.code == FLOOD, error
            return
        self._note(f"call {number} answered")
        self.done[name] = self.done.get(name, 0) + 1
        for pts, pts_count in _moves(answer):
            living.answered.update(range(pts - pts_count + 1, pts + 1))
        living.sent |= _told(answer)

    async def _at_once(self) -> None:
        """Makes several calls at once, of a few devices, while one that only asks keeps asking."""
        some = self.choose.sample(self.devices, 3)
        calls = [self._call(self.choose.choice(some)) for _ in range(self.choose.randrange(2, 9))]
        asking = self.choose.choice(self.devices).device
        asked = self.asked[asking.user_id]
        await asyncio.gather(*calls, asked.catch_up(asking, pts_limit=self.choose.choice([None, 2])))

    async def race(self, calls: int) -> None:
        """Makes several calls at once, of all devices."""
        self.steps += 1
        await asyncio.gather(*(self._call(self.choose.choice(self.devices)) for _ in range(calls)))

    async def _break(self) -> None:
        """Makes several calls at once and breaks off some, or all that PostgreSQL was doing for them."""
        some = self.choose.sample(self.devices, 5)
        tasks = {asyncio.create_task(self._call(living)): living for living in some}
        for _ in range(self.choose.randrange(1, 40)):
            await asyncio.sleep(0)
        if self._flag():
            self._note("the links to PostgreSQL break")
            await self._breaker.execute(BREAK)
        else:
            self._note("calls are broken off")
            for task in self.choose.sample(list(tasks), 3):
                task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for living, outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, asyncio.CancelledError):
                living.there = False  # whatever became of the call
            elif isinstance(outcome, BaseException):
                raise outcome
        await self._recover()

    async def _delete_account(self) -> None:
        """Has an account deleted while others make calls; somebody else signs up."""
        leaving = self.choose.choice(self.everybody)
        self._note(f"{leaving.user_id} leaves")
        self.devices = [living for living in self.devices if living.device.user_id != leaving.user_id]
        self.everybody.remove(leaving)
        self.gone.append(leaving)
        del self.told[leaving.user_id], self.asked[leaving.user_id]
        calls = [self._call() for _ in range(self.choose.randrange(4))]
        await asyncio.gather(leaving.call(functions.account.DeleteAccount(reason="")), *calls)
        await asyncio.gather(*(self._save_next_number(device) for device in self.everybody if self._flag()))
        user = await self._sign_up()
        devices = [await self._log_in(user, server) for server in self.servers]
        self.everybody.append(devices[0])
        await self._begin(devices)
        calls = [self._call() for _ in range(self.choose.randrange(4))]
        told, *_ = await asyncio.gather(self._tell_of_sign_ups(), *calls)
        self.done["told of a sign-up"] = self.done.get("told of a sign-up", 0) + told

    async def _tell_of_sign_ups(self) -> int:
        return sum(await asyncio.gather(*(server.store.sign_ups.tell_due() for server in self.servers)))

    async def _save_next_number(self, device: Device) -> None:
        """Has an account save the number of whoever signs up next."""
        self._note(f"{device.user_id} saves the next number")
        contact = types.InputPhoneContact(
            client_id=1, phone=str(self._next_phone), first_name="Somebody", last_name="new"
        )
        with suppress(Refused):  # it asked about too many numbers today
            await device.call(functions.contacts.ImportContacts(contacts=[contact]))

    async def _recover(self) -> None:
        """Lets what was broken off come to an end, and its reservations be filled."""
        for server in self.servers:
            for device in self.everybody:
                await server.store.sends.settled(device.user_id)
                await server.store.reads.settled(device.user_id)
        for _ in range(4):
            self.clock.advance(RESERVATION_S)
            for server in self.servers:
                with suppress(Unavailable):  # a link that it finds broken: the next one goes on
                    await server.store.updates.sweep()

    def _flag(self) -> bool:
        return self.choose.random() < 0.5

    async def _toggle(self, living: Living) -> None:
        """Takes a device away, or brings it back: then it asks for what it missed."""
        self._note(f"device {living.device.caller.auth_key_id} {'goes' if living.there else 'is back'}")
        living.there = not living.there
        if living.there:
            await living.replica.catch_up(living.device)

    async def _pass_time(self, seconds: int) -> None:
        self._note(f"{seconds} s pass")
        self.clock.advance(seconds)
        stores = [server.store for server in self.servers]
        await asyncio.gather(*(store.until_online.look() for store in stores))
        await asyncio.gather(*(store.due.dispatch() for store in stores))
        await asyncio.gather(*(store.ttl.expire() for store in stores))
        await self._tell_of_sign_ups()
        for device in self.gone:
            await asyncio.gather(*(store.purge.step(device.user_id) for store in stores))

    async def _flush(self) -> None:
        """Empties what is kept in memory only."""
        self._note("the keys are flushed")
        keys = [key async for key in self._connection.scan_iter(match=f"{self._prefix}*", count=1000)]
        if keys:
            await self._connection.unlink(*keys)

    async def _deliver(self) -> None:
        self._note("what is owed is pushed")
        for user_id, pushes in (await self._pushes()).items():
            for push in pushes:
                self.told[user_id].learn(push.update.users)
                for update in push.update.updates:
                    self.told[user_id].follow(update)
            for living in self.devices:
                if living.device.user_id == user_id:
                    living.heard(pushes)

    async def _pushes(self) -> dict[int, list[Push]]:
        server = self.choose.choice(self.servers)
        return await server.pushes_of([device.user_id for device in self.everybody])

    def _note(self, text: str) -> None:
        self.log.append(text)
        del self.log[:-REMEMBERED]


def _moves(value: Any) -> Iterator[tuple[int, int]]:
    """Yields each pts with its count in an answer."""
    if isinstance(value, list):
        for one in value:
            yield from _moves(one)
    elif isinstance(value, tl.TLObject):
        moved: Any = value
        if hasattr(moved, "pts_count"):
            yield moved.pts, moved.pts_count
        for one in getattr(value, "updates", ()):
            yield from _moves(one)


def _told(answer: Any) -> dict[int, dict[str, Any]]:
    """Returns what an answer tells of new messages, by their pts, as far as it stays so."""
    if isinstance(answer, types.UpdateShortSentMessage):
        return {answer.pts: {name: getattr(answer, name) for name in FIXED_IN_SHORT}}
    return {
        update.pts: {
            name: getattr(update.message, name) for name in update.message.__slots__ if name in FIXED
        }
        for update in getattr(answer, "updates", ())
        if isinstance(update, types.UpdateNewMessage)
    }


@asynccontextmanager
async def processes(
    postgres_dsn: str, redis_url: str, redis_prefix: str, number: int = 2
) -> AsyncIterator[list[Server]]:
    """Several processes' worth of stores and dispatchers over the same PostgreSQL and Valkey."""
    clock = FakeClock()
    config = StoreConfig(
        postgres_dsn=postgres_dsn,
        redis_url=redis_url,
        redis_prefix=redis_prefix,
        clock=clock,
        min_conns=1,
        max_conns=6,
        wait_s=PATIENCE_S,
        message_rate_limit=0,
        dev_auth_code=CODE,
    )
    stores: list[Store] = []
    try:
        for _ in range(number):
            stores.append(await Store.open(config))
        sessions = [Sessions() for _ in stores]
        yield [
            Server(store, clock, hub, Dispatcher(store, RpcConfig(), clock, hub))
            for store, hub in zip(stores, sessions, strict=True)
        ]
    finally:
        for store in stores:
            await store.close()


@asynccontextmanager
async def opened(
    postgres_dsn: str, redis_url: str, redis_prefix: str, seed: int, **settings: Any
) -> AsyncIterator[World]:
    """A world with its accounts, over two processes.

    Raises:
        AssertionError: something failed within; it tells the seed, how far it came and the last actions.
    """
    connection = redis.asyncio.Redis.from_url(redis_url)
    breaker = await asyncpg.connect(postgres_dsn)
    try:
        async with processes(postgres_dsn, redis_url, redis_prefix) as servers:
            world = World(servers, seed, connection, redis_prefix, breaker, **settings)
            try:
                await world.populate()
                yield world
            except Exception as error:
                told = "\n".join(
                    [f"seed {seed}, step {world.steps}: {type(error).__name__} {error}", *world.log]
                )
                raise AssertionError(told) from error
    finally:
        await breaker.close()
        await connection.aclose()


async def run(postgres_dsn: str, redis_url: str, redis_prefix: str, seed: int, steps: int) -> dict[str, int]:
    """Runs the model; returns how often each method succeeded.

    Raises:
        AssertionError: as `opened`.
    """
    async with opened(postgres_dsn, redis_url, redis_prefix, seed) as world:
        for step in range(1, steps + 1):
            await world.step()
            if step % CHECKED_EVERY == 0 or step == steps:
                await world.check()
        return world.done


async def race(
    postgres_dsn: str,
    redis_url: str,
    redis_prefix: str,
    seed: int,
    rounds: int,
    calls: int,
    weights: Mapping[str, int],
) -> set[EventKind]:
    """Makes calls of some kinds at once, several rounds of it; returns the kinds of events that came of it.

    Raises:
        AssertionError: as `opened`.
    """
    async with opened(postgres_dsn, redis_url, redis_prefix, seed, weights=weights, accounts=2) as world:
        for _ in range(rounds):
            await world.race(calls)
            await world.check()
        return await world.kinds()
