"""Two machines with a server each, one PostgreSQL and one Redis: one service."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from telesrv.mtproto.rsa import load_or_generate_rsa_key
from telesrv.platform import Endpoints
from telesrv.tl import functions, mt, types
from tests.processes.machines import Machine, Stores, why_not
from tests.processes.person import Person, no_bug
from tests.support.running import RunningServer

REASON = why_not()

pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest_asyncio.fixture
async def machines(
    directory: Path, endpoints: Endpoints, postgres_dsn: str
) -> AsyncIterator[tuple[RunningServer, RunningServer]]:
    """A server of two workers on each of two machines."""
    shared = Endpoints(postgres_dsn, endpoints.redis_url)
    load_or_generate_rsa_key(directory / "machines.pem")
    async with AsyncExitStack() as stack:
        servers = []
        for number in (1, 2):
            machine = stack.enter_context(Machine(number))
            stores = await stack.enter_async_context(Stores(shared, machine))
            server = RunningServer(
                directory / f"machine{number}",
                host=machine.address,
                command=machine.command,
                TELESRV_WORKERS="2",
                TELESRV_POSTGRES_MIN_CONNS="2",
                TELESRV_POSTGRES_MAX_CONNS="10",
                TELESRV_RSA_KEY=str(directory / "machines.pem"),
                **stores.settings,
            )
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        for server in servers:
            (server.data_dir / "server_rsa.pem").write_bytes((directory / "machines.pem").read_bytes())
        yield servers[0], servers[1]
        for server in servers:
            no_bug(server)


async def test_two_machines_are_one_server(machines: tuple[RunningServer, RunningServer]) -> None:
    here, there = machines
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
