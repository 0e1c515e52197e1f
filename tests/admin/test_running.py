"""The operator's view of a whole server with real clients on it."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest_asyncio
from telethon import errors, functions

from tests.admin.commands import Cli, Forker
from tests.clients.telethon_peer import TelethonPeer, trust
from tests.support.directories import server_directory
from tests.support.http import get
from tests.support.running import RunningServer


class Operated:
    """A server of two workers, and its operator."""

    def __init__(self, directory: Path, forker: Forker) -> None:
        self.server = RunningServer(directory / "data", TELESRV_WORKERS="2")
        self.cli = Cli(forker, directory, **self.server.environment)

    async def numbers(self) -> dict[str, float]:
        """Every sample of /metrics."""
        status, _, body = await get(self.server.metrics_port, "/metrics")
        assert status == 200
        found = re.findall(r"^(telesrv_\S+) (\S+)$", body.decode(), re.MULTILINE)
        return {name: float(value) for name, value in found}

    async def until(self, condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        """Returns the first numbers that fulfil *condition*; other processes count them."""
        while not condition(numbers := await self.numbers()):
            pass
        return numbers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operated(forker: Forker) -> AsyncIterator[Operated]:
    with server_directory("operator") as directory:
        operated = Operated(directory, forker)
        await operated.server.start()
        trust(operated.server.public_key)
        yield operated
        assert await operated.server.stop() == 0, operated.server.log_text()[-4000:]


async def test_what_an_operator_sees_and_does(operated: Operated) -> None:
    cli, port = operated.cli, operated.server.port
    assert await operated.server.is_ready()
    before = await operated.numbers()

    def counted(now: dict[str, float], name: str) -> float:
        return now.get(name, 0) - before.get(name, 0)

    anna, boris = TelethonPeer(port), TelethonPeer(port)
    await anna.log_in("15550001", "Anna")
    await boris.log_in("15550002", "Boris")
    await anna.import_contact("15550002", "Boris")
    for number in range(5):
        await anna.send(boris.user_id, f"message {number}")
    assert await boris.wait_for_messages(5)
    (listed,) = (await cli("users", "list", "+15550001", "--json")).json  # who sends is online
    assert listed["online"] is (await cli("users", "show", "+15550001", "--json")).json["online"] is True

    numbers = await operated.until(
        lambda now: (
            counted(now, "telesrv_outbox_delivered_total") >= 10
            and now.get("telesrv_outbox_waiting_rows") == 0
            and now.get("telesrv_connections", 0) >= 2
        )
    )
    assert counted(numbers, 'telesrv_messages_total{result="sent"}') >= 5
    assert counted(numbers, 'telesrv_rpc_total{method="messages.sendMessage",outcome="ok"}') == 5
    assert counted(numbers, 'telesrv_rpc_seconds_count{method="messages.sendMessage"}') == 5
    assert counted(numbers, "telesrv_commit_batch_size_count") >= 5
    assert counted(numbers, "telesrv_pool_wait_seconds_count") > 0
    assert numbers['telesrv_ready{check="workers"}'] == 1

    workers = (await cli("workers", "--json")).json
    assert {worker["pid"] for worker in workers} == set(operated.server.worker_pids())
    assert sum(worker["connections"] for worker in workers) >= 2
    assert (await cli("pts", "check", "--settle", "10")).code == 0
    assert (await cli("outbox", "stats", "--json")).json["failed"] == 0
    check = await cli("check-config", "--json")
    assert (check.code, check.json["ok"]) == (0, True)

    (device,) = (await cli("sessions", "list", "--json", "--user", str(boris.user_id))).json
    assert device["device"] == "telethon peer"
    assert (await cli("sessions", "kill", device["hash"])).code == 0
    try:
        await boris.client(functions.updates.GetStateRequest())
    except errors.UnauthorizedError:
        pass
    else:
        raise AssertionError("the device is still logged in")
    await anna.send(boris.user_id, "for the account, not for the device")
    assert (await cli("users", "show", "+15550002", "--json")).json["devices"] == []
    assert len(boris.mirror.messages) == 5
    await anna.close()
    await boris.close()


async def test_counts_outlive_a_worker_that_is_killed(operated: Operated) -> None:
    anna = TelethonPeer(operated.server.port)
    await anna.log_in("15550003", "Anna")
    for number in range(3):
        await anna.send(anna.user_id, f"note {number}")
    sent = 'telesrv_messages_total{result="sent"}'
    before = (await operated.numbers())[sent]
    old = set(operated.server.worker_pids())
    for pid in old:
        os.kill(pid, 9)
    await operated.until(
        lambda now: (
            now['telesrv_ready{check="workers"}'] == 1
            and len(set(operated.server.worker_pids()) - old) == len(old)
        )
    )
    assert not old & set(operated.server.worker_pids())
    assert (await operated.numbers())[sent] >= before
    await anna.send(anna.user_id, "one more")
    assert (await operated.numbers())[sent] >= before + 1
    files = {path.name for path in (operated.server.data_dir / "metrics").iterdir()}
    assert not [name for name in files if any(f"_{pid}.db" in name for pid in old)]
    await anna.close()
