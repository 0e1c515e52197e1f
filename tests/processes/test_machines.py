"""Two machines with a server each, one PostgreSQL and one Redis: one service."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from telesrv.clock import SystemClock
from telesrv.mtproto.rsa import load_or_generate_rsa_key
from telesrv.platform import Endpoints
from telesrv.store.nodes import NodeStore
from telesrv.store.pool import Pool
from telesrv.tl import functions, mt, types
from tests.conftest import cloned_database
from tests.processes.machines import Machine, Stores, why_not
from tests.processes.person import Person, no_bug
from tests.support.running import RunningServer
from tests.support.waiting import until

REASON = why_not()

LEASE_S = 8
"""Long enough for a worker that is only slow, short enough to wait for."""

pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@dataclass(frozen=True)
class Pair:
    """Two machines with a server each; both servers know one PostgreSQL and one Redis."""

    machines: tuple[Machine, ...]
    servers: tuple[RunningServer, ...]
    nodes: NodeStore
    """Numbers as a third machine would take them."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(directory: Path, endpoints: Endpoints, template_database: str) -> AsyncIterator[Pair]:
    """A machine with two workers and one with one; the tests end with the death of the first."""
    load_or_generate_rsa_key(directory / "machines.pem")
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context(cloned_database(endpoints, template_database))
        pool = await Pool.connect(dsn, min_conns=1, max_conns=1)
        stack.push_async_callback(pool.close)
        machines, servers = [], []
        for number, workers in ((1, 2), (2, 1)):
            machine = stack.enter_context(Machine(number))
            stores = Stores(Endpoints(dsn, endpoints.redis_url), machine)
            await stack.enter_async_context(stores)
            server = RunningServer(
                directory / f"machine{number}",
                host=machine.address,
                command=machine.command,
                TELESRV_WORKERS=f"{workers}",
                TELESRV_POSTGRES_MIN_CONNS="2",
                TELESRV_POSTGRES_MAX_CONNS="10",
                TELESRV_RSA_KEY=str(directory / "machines.pem"),
                TELESRV_NODE_LEASE=f"{LEASE_S}",
                **stores.settings,
            )
            await server.start()
            stack.push_async_callback(server.stop)
            (server.data_dir / "server_rsa.pem").write_bytes((directory / "machines.pem").read_bytes())
            machines.append(machine)
            servers.append(server)
        yield Pair(tuple(machines), tuple(servers), NodeStore(pool, SystemClock()))
        for server in servers:
            no_bug(server)


async def living(nodes: NodeStore, server: RunningServer) -> list[int]:
    """Returns the server's workers that hold a number, by their numbers."""
    pids = server.worker_pids()
    return [info.pid for info in await nodes.list() if info.pid in pids]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_machine_that_is_cut_off_lets_go_and_comes_back(pair: Pair) -> None:
    here, there = pair.servers
    nodes = pair.nodes
    pids = await living(nodes, here)
    numbers = {info.pid: info.node for info in await nodes.list()}
    # Boris is where nothing happens; Anna's worker will have lost its number, Carl's will not.
    boris, second = await Person(there).join(), Person(there)
    anna, carl = await Person(here).join(pids[0]), await Person(here).join(pids[1])
    await second.join(phone=anna.phone)
    to_anna, to_carl, to_boris = await boris.peer(anna), await boris.peer(carl), await anna.peer(boris)
    await boris.say(to_anna, "before")
    await anna.hear("before")
    await second.hear("before")
    states = [await person.ask(functions.updates.GetState()) for person in (anna, carl)]

    pair.machines[0].to_stores.cut()
    await until(lambda: _none_of(nodes, pids), "the leases to end")
    taken = await nodes.acquire()
    assert taken.node == numbers[pids[0]]
    await boris.say(to_anna, "to the one that is away")
    await boris.say(to_carl, "to the other")
    await second.hear("to the one that is away")
    random_id = anna.next_random_id()
    query = functions.messages.SendMessage(peer=to_boris, message="at last", random_id=random_id)
    refused = await anna.ask(query)
    assert isinstance(refused, mt.RpcError)
    assert refused.error_code == 500

    pair.machines[0].to_stores.heal()
    await anna.receive_to_end()
    await until(lambda: _serving(nodes, here, without=pids[0]), "both workers to serve again")
    await anna.connect()
    assert not isinstance(await anna.ask(query), mt.RpcError)
    await boris.hear("at last")
    await boris.say(to_carl, "are you back?")
    await carl.hear("are you back?")
    for person, state, texts in (
        (anna, states[0], ["to the one that is away", "at last"]),
        (carl, states[1], ["to the other", "are you back?"]),
    ):
        difference = await person.ask(
            functions.updates.GetDifference(pts=state.pts, date=state.date, qts=state.qts)
        )
        assert [message.message for message in difference.new_messages] == texts
    for person, state in ((anna, states[0]), (carl, states[1])):
        assert (await person.ask(functions.updates.GetState())).pts == state.pts + 2
    assert boris.texts().count("at last") == 1
    assert pids[1] in here.worker_pids()
    await taken.release()
    for person in (anna, boris, carl, second):
        await person.close()


async def _none_of(nodes: NodeStore, pids: list[int]) -> bool:
    return not {info.pid for info in await nodes.list()} & set(pids)


async def _serving(nodes: NodeStore, server: RunningServer, *, without: int) -> bool:
    pids = await living(nodes, server)
    return len(pids) == 2 and without not in pids


@pytest.mark.asyncio(loop_scope="module")
async def test_two_machines_are_one_server(pair: Pair) -> None:
    here, there = pair.servers
    anna, boris, second = Person(here), Person(there), Person(there)
    await anna.join()
    await boris.join()
    await second.join(phone=anna.phone)
    to_boris, to_anna = await anna.peer(boris), await boris.peer(anna)

    # They chat, on both machines, and see each other type and be online.
    await anna.say(to_boris, "hello over there")
    await boris.hear("hello over there")
    await second.hear("hello over there")
    await boris.say(to_anna, "hello yourself")
    await anna.hear("hello yourself")
    await second.hear("hello yourself")
    await boris.ask(functions.messages.SetTyping(peer=to_anna, action=types.SendMessageTypingAction()))
    while not isinstance((await anna.wait_for(types.UpdateShort)).update, types.UpdateUserTyping):
        pass
    await boris.ask(functions.account.UpdateStatus(offline=False))
    full = await anna.ask(
        functions.users.GetFullUser(
            id=types.InputUser(user_id=boris.user_id, access_hash=to_boris.access_hash)
        )
    )
    (seen,) = full.users
    assert isinstance(seen.status, types.UserStatusOnline)

    # A session moves from one machine to the other.
    before = {msg_id for msg_id, _ in anna.heard}
    await anna.close()
    await boris.say(to_anna, "on your way")
    anna.port, anna.host = there.port, there.host
    await anna.connect()
    await anna.ping()
    await anna.hear("on your way")
    anna.port, anna.host = here.port, here.host
    await anna.connect()
    await anna.ping()
    fresh = [message for msg_id, message in anna.heard if msg_id not in before]
    assert not any(isinstance(m, mt.NewSessionCreated | types.UpdatesTooLong) for m in fresh)

    # A log-out on one machine holds on the other at once.
    assert await anna.ask(functions.auth.ResetAuthorizations()) is True
    await boris.say(to_anna, "only to the one that stayed")
    await anna.hear("only to the one that stayed")
    await second.ping()
    assert "only to the one that stayed" not in second.texts()

    # One machine is gone at once; its clients go on with the other.
    state = await anna.ask(functions.updates.GetState())
    assert here.process is not None
    for pid in (here.process.pid, *here.worker_pids()):
        with contextlib.suppress(ProcessLookupError):  # workers end with the one that started them
            os.kill(pid, signal.SIGKILL)
    await here.process.wait()
    await boris.say(to_anna, "are you there?")
    anna.port, anna.host = there.port, there.host
    await anna.connect()
    difference = await anna.ask(
        functions.updates.GetDifference(pts=state.pts, date=state.date, qts=state.qts)
    )
    assert [message.message for message in difference.new_messages] == ["are you there?"]
    await anna.say(to_boris, "here")
    await boris.hear("here")
    for person in (anna, boris, second):
        await person.close()
