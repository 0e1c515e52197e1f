"""One server of three workers for the tests that leave it as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.telethon_peer import trust
from tests.processes.person import Person, no_bug
from tests.support.directories import server_directory
from tests.support.running import RunningServer


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """A directory that the account which PostgreSQL runs as gets into."""
    with server_directory("processes") as path:
        yield path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(directory: Path) -> AsyncIterator[RunningServer]:
    """A server of three workers, on which nothing may end in a traceback."""
    running = RunningServer(directory / "data", TELESRV_WORKERS="3", TELESRV_POSTGRES_MIN_CONNS="4")
    await running.start()
    trust(running.public_key)
    yield running
    assert await running.stop() == 0, running.log_text()[-4000:]
    no_bug(running)


MakePerson = Callable[..., Awaitable[Person]]


@pytest_asyncio.fixture
async def join(server: RunningServer) -> AsyncIterator[MakePerson]:
    """Makes devices that are logged in: `await join(pid, phone)`."""
    made: list[Person] = []

    async def make(pid: int | None = None, phone: str = "") -> Person:
        person = Person(server)
        made.append(person)
        return await person.join(pid, phone)

    yield make
    for person in made:
        await person.close()
