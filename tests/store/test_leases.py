"""Work that somebody died with: whoever lives goes on with it at once, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind
from telesrv.store import Store, StoreConfig
from telesrv.store.leases import LEASE_MS
from telesrv.store.nodes import LEASE_S, NodeLease
from tests.store.world import ANNA, BORIS, add_users, log_of, request
from tests.support.waiting import until

CHAT = Peer.user(BORIS)
NOW = 1_800_000_000
PHONE = "15550001"


@dataclass(frozen=True)
class Kind:
    """A kind of work that is leased."""

    table: str
    """Whose rows are leased."""
    body: str
    """A table whose rows the work must change."""
    arrange: Callable[[Store], Awaitable[None]]
    """Makes one piece of it due, of Anna's."""
    turn: Callable[[Store], Awaitable[int]]
    done: tuple[EventKind, ...]
    """What Anna's log has of it, when it is done."""


async def schedule(store: Store) -> None:
    await store.scheduled.add(request(ANNA, BORIS, date=NOW - 20), NOW - 10)


async def expire(store: Store) -> None:
    await store.ttl.set(ANNA, CHAT, 600, date=NOW - 1000)
    await store.messages.send(request(ANNA, BORIS, date=NOW - 900))
    await store.pool.execute("DELETE FROM history_ttl WHERE owner_user_id = $1", BORIS)


async def sign_up(store: Store) -> None:
    await store.saved_contacts.imported(ANNA, {PHONE: ("Clara", "")}, [])
    await store.accounts.sign_up(PHONE, "Clara")


KINDS = [
    Kind(
        "scheduled_messages",
        "private_messages",
        schedule,
        lambda store: store.due.dispatch(),
        (EventKind.NEW_MESSAGE, EventKind.SCHEDULED_DELETED),
    ),
    Kind(
        "history_ttl",
        "message_boxes",
        expire,
        lambda store: store.ttl.expire(),
        (EventKind.DELETE_MESSAGES,),
    ),
    Kind(
        "sign_ups",
        "saved_contacts",
        sign_up,
        lambda store: store.sign_ups.tell_due(),
        (EventKind.CONTACTS_RESET, EventKind.PEER_SETTINGS, EventKind.NEW_MESSAGE),
    ),
]


async def bury(store: Store, lease: NodeLease) -> None:
    """As the supervisor does that saw the process die."""
    assert await store.nodes.bury(lease.node, lease.holder)


async def run_out(store: Store, lease: NodeLease) -> None:
    """As it comes when a machine is gone with its supervisor."""
    await store.pool.execute("UPDATE nodes SET expires_at_ms = 1 WHERE node = $1", lease.node)


async def lease_anew(store: Store, lease: NodeLease) -> None:
    """The number is another process's: that one lives, and the lease is not its own."""
    await run_out(store, lease)
    assert (await store.nodes.acquire()).node == lease.node


ENDS = [bury, run_out, lease_anew]


@pytest.fixture
def clock() -> FakeClock:
    """A clock that message ids can tell the time by."""
    return FakeClock(time=NOW)


@dataclass(frozen=True)
class Process:
    """A process with a node number of its own."""

    store: Store
    lease: NodeLease

    @classmethod
    async def of(cls, store: Store) -> Process:
        lease = await store.nodes.acquire()
        store.ids.message_ids.hold(lease)
        return cls(store, lease)


@pytest.fixture
async def dying(store: Store) -> Process:
    """The one that does not come to its end."""
    await add_users(store, ANNA, BORIS)
    return await Process.of(store)


@pytest.fixture
async def living(store_config: StoreConfig, dying: Process) -> AsyncIterator[Process]:
    """Another one."""
    store = await Store.open(store_config)
    yield await Process.of(store)
    await store.close()


async def pass_by(clock: FakeClock, seconds: float, living: Process) -> None:
    clock.advance(seconds)
    await living.lease.renew(0, 0)


async def leased_by(store: Store, table: str) -> list[str]:
    return [row[0] for row in await store.pool.fetch(f"SELECT leased_by FROM {table}") if row[0]]


async def begin_and_die(store: Store, kind: Kind) -> None:
    """Ends a turn in the middle of its work: it has leased what is due, and changed nothing yet."""
    async with store.pool.transaction() as connection:
        await connection.execute(f"SELECT FROM {kind.body} FOR UPDATE")
        turn = asyncio.create_task(kind.turn(store))
        await until(lambda: leased_by(store, kind.table), "a lease")
        await until(lambda: store.pool.fetchval("SELECT 1 FROM pg_locks WHERE NOT granted"), "a wait")
        turn.cancel()
        await asyncio.wait([turn])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.table)
async def test_what_a_process_died_with_is_done_at_once_and_once(
    dying: Process,
    living: Process,
    clock: FakeClock,
    kind: Kind,
    end: Callable[[Store, NodeLease], Awaitable[None]],
) -> None:
    await kind.arrange(dying.store)
    before = await logged(living.store)
    await begin_and_die(dying.store, kind)
    assert await leased_by(living.store, kind.table) == [dying.lease.holder]
    await pass_by(clock, LEASE_S + 1, living)
    assert await kind.turn(living.store) == 0, "its holder may still be at it"
    await end(living.store, dying.lease)
    await done_once(kind, dying, living, before)
    assert await leased_by(living.store, kind.table) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.table)
async def test_what_a_process_failed_with_comes_again_after_the_lease(
    dying: Process, living: Process, clock: FakeClock, kind: Kind
) -> None:
    await kind.arrange(dying.store)
    before = await logged(living.store)
    await begin_and_die(dying.store, kind)
    await pass_by(clock, LEASE_MS / 1000 - 1, living)
    assert await kind.turn(living.store) == 0
    await pass_by(clock, 1, living)
    await done_once(kind, dying, living, before)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.table)
async def test_a_process_that_only_hung_does_nothing_twice(
    dying: Process, living: Process, kind: Kind
) -> None:
    """It goes on in the midst of what another has taken over."""
    await kind.arrange(dying.store)
    before = await logged(living.store)
    async with living.store.pool.transaction() as connection:
        await connection.execute(f"SELECT FROM {kind.body} FOR UPDATE")
        hung = asyncio.create_task(kind.turn(dying.store))
        await until(lambda: leased_by(living.store, kind.table), "a lease")
        await run_out(living.store, dying.lease)
        taken = asyncio.create_task(kind.turn(living.store))

        async def is_taken() -> bool:
            return await leased_by(living.store, kind.table) == [living.lease.holder]

        await until(is_taken, "another lease")
    assert sum(await asyncio.gather(hung, taken)) > 0
    assert await kind.turn(living.store) == 0
    assert await logged(living.store) - before == Counter(kind.done)


async def logged(store: Store) -> Counter[EventKind]:
    """Returns how much Anna's log has of each kind, noops apart: those stand for what died or was late."""
    await store.updates.sweep()
    return Counter(event.kind for event in await log_of(store, ANNA) if event.kind is not EventKind.NOOP)


async def done_once(kind: Kind, dying: Process, living: Process, before: Counter[EventKind]) -> None:
    """Does what is due, and asserts that no other turn does it again."""
    assert await kind.turn(living.store) > 0
    assert await kind.turn(living.store) == await kind.turn(dying.store) == 0
    assert await logged(living.store) - before == Counter(kind.done)
