"""The embedded servers keep their data and come back, whatever happens to them or to us."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio
import redis.exceptions

from telesrv.platform import DataDirInUse, EmbeddedServers, Endpoints, PlatformError, binaries, discover
from telesrv.platform import account as accounts
from telesrv.platform.process import leftovers
from tests.support.running import JUST_ENDED

FAST = {"fsync": "off"}
"""For tests that kill processes and not the machine: what a process has written, the kernel keeps."""

OWNER = """
import asyncio, sys
from pathlib import Path
from telesrv.platform import EmbeddedServers

async def main():
    await EmbeddedServers(Path(sys.argv[1]), postgres_settings={"fsync": "off"}).start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def write(endpoints: Endpoints, value: str) -> None:
    connection = await asyncpg.connect(endpoints.postgres_dsn)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS kept (value text)")
        await connection.execute("INSERT INTO kept VALUES ($1)", value)
    finally:
        await connection.close()
    client = redis.asyncio.Redis.from_url(endpoints.redis_url)
    try:
        await client.set("kept", value)
        await client.execute_command("WAITAOF", 1, 0, 0)
    finally:
        await client.aclose()


async def read(endpoints: Endpoints) -> tuple[list[str], str | None]:
    connection = await asyncpg.connect(endpoints.postgres_dsn)
    try:
        rows = [row["value"] for row in await connection.fetch("SELECT value FROM kept")]
    finally:
        await connection.close()
    client = redis.asyncio.Redis.from_url(endpoints.redis_url, decode_responses=True)
    try:
        return rows, await client.get("kept")
    finally:
        await client.aclose()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - it happens in another process
        await asyncio.sleep(0)


async def test_a_second_start_finds_the_data_of_the_first(data_dir: Path) -> None:
    first = EmbeddedServers(data_dir)
    await write(await first.start(), "first")
    await first.stop()
    second = EmbeddedServers(data_dir, postgres_settings=FAST)
    try:
        assert await read(await second.start()) == (["first"], "first")
    finally:
        await second.stop()
    assert leftovers(data_dir / "postgres", "postgres") == []


async def test_a_server_that_is_killed_comes_back_with_its_data(made_data_dir: Path) -> None:
    servers = EmbeddedServers(made_data_dir, postgres_settings=FAST)
    endpoints = await servers.start()
    try:
        await write(endpoints, "before")
        for child in servers.children:
            pid = child.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

            async def is_back(child=child, pid=pid) -> bool:
                return child.pid not in {None, pid} and await child.answers()

            await until(is_back)
        assert await read(endpoints) == (["before"], "before")
    finally:
        await servers.stop()


async def test_a_question_that_is_broken_off_leaves_nothing_open(made_data_dir: Path) -> None:
    servers = EmbeddedServers(made_data_dir, postgres_settings=FAST)
    await servers.start()
    try:
        for child in servers.children:
            answered, steps = False, 0
            while not answered:
                question = asyncio.create_task(child.answers())
                for _ in range(steps):
                    await asyncio.sleep(0)
                answered = question.done()
                question.cancel()
                await asyncio.wait([question])
                steps += 1
            assert steps > 1
    finally:
        await servers.stop()
    gc.collect()  # what was left open complains, and that is an error


async def test_after_our_own_sudden_death_nothing_runs_on_and_nothing_is_lost(made_data_dir: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(made_data_dir), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert (await owner.stdout.readline()).strip() == b"ready"
    endpoints = discover(made_data_dir)
    assert endpoints is not None
    await write(endpoints, "before")
    owner.kill()
    await owner.wait()
    assert discover(made_data_dir) is None
    servers = EmbeddedServers(made_data_dir, postgres_settings=FAST)
    try:
        assert await read(await servers.start()) == (["before"], "before")
    finally:
        await servers.stop()


async def test_everything_killed_at_once_is_recovered(made_data_dir: Path) -> None:
    servers = EmbeddedServers(made_data_dir, postgres_settings=FAST)
    await write(await servers.start(), "before")
    for name, program in (("postgres", "postgres"), ("valkey", "valkey-server")):
        for pid in leftovers(made_data_dir / name, program):
            with contextlib.suppress(ProcessLookupError):  # with the first of them the others end
                os.kill(pid, signal.SIGKILL)
    await servers.stop()
    # The process id in the lock file is a living process of another kind now.
    (made_data_dir / "postgres/postmaster.pid").write_text(f"{os.getppid()}\n")
    again = EmbeddedServers(made_data_dir, postgres_settings=FAST)
    try:
        assert await read(await again.start()) == (["before"], "before")
    finally:
        await again.stop()


async def test_left_over_processes_are_ended_before_a_start(made_data_dir: Path) -> None:
    servers = EmbeddedServers(made_data_dir, postgres_settings=FAST)
    await servers.start()
    try:
        pids = [child.pid for child in servers.children]
        for child in servers.children:
            assert leftovers(child.directory, child.name) != []
            await child.stop_leftovers()
            assert leftovers(child.directory, child.name) == [] or child.pid not in pids
    finally:
        await servers.stop()


async def test_two_servers_do_not_share_a_made_data_directory(made_data_dir: Path) -> None:
    servers = EmbeddedServers(made_data_dir, redis=False, postgres_settings=FAST)
    await servers.start()
    try:
        with pytest.raises(DataDirInUse, match=f"process {os.getpid()}"):
            await EmbeddedServers(made_data_dir, postgres_settings=FAST).start()
        assert discover(made_data_dir) is not None, "the refused one left the running one alone"
    finally:
        await servers.stop()


async def test_endpoints_are_found_while_it_runs_and_only_by_the_owner(made_data_dir: Path) -> None:
    assert discover(made_data_dir) is None
    servers = EmbeddedServers(made_data_dir, redis=False, postgres_settings=FAST)
    endpoints = await servers.start()
    assert discover(made_data_dir) == endpoints
    assert "password" not in repr(endpoints) and endpoints.postgres_dsn not in repr(endpoints)
    for name in ("endpoints.json", "embedded.json"):
        assert stat.S_IMODE((made_data_dir / name).stat().st_mode) == 0o600
    password = json.loads((made_data_dir / "embedded.json").read_text())["password"]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(*JUST_ENDED):
            assert password.encode() not in path.read_bytes()
    await servers.stop()
    assert discover(made_data_dir) is None


async def test_no_password_no_entry(made_data_dir: Path) -> None:
    servers = EmbeddedServers(made_data_dir, postgres_settings=FAST)
    endpoints = await servers.start()
    password = json.loads((made_data_dir / "embedded.json").read_text())["password"]
    try:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(endpoints.postgres_dsn.replace(password, "wrong"))
        client = redis.asyncio.Redis.from_url(endpoints.redis_url.replace(password, "wrong"))
        with pytest.raises(redis.exceptions.ConnectionError, match="invalid username-password"):
            await client.ping()
        await client.aclose()
    finally:
        await servers.stop()


async def test_trigrams_of_every_script_are_found(made_data_dir: Path) -> None:
    servers = EmbeddedServers(made_data_dir, redis=False, postgres_settings=FAST)
    endpoints = await servers.start()
    connection = await asyncpg.connect(endpoints.postgres_dsn)
    try:
        await connection.execute("CREATE EXTENSION pg_trgm")
        assert await connection.fetchval("SELECT cardinality(show_trgm('Привет'))") == 7
        assert await connection.fetchval("SELECT lower('ÄПЯ')") == "äпя"
    finally:
        await connection.close()
        await servers.stop()


async def test_a_deep_directory_has_its_sockets_elsewhere(made_data_dir: Path) -> None:
    deep = made_data_dir.rename(made_data_dir.with_name("deep" * 30))
    servers = EmbeddedServers(deep, postgres_settings=FAST)
    endpoints = await servers.start()
    await write(endpoints, "deep")
    assert "host=/tmp/telesrv-" in endpoints.postgres_dsn
    await servers.stop()
    sockets = Path(endpoints.postgres_dsn.partition("host=")[2].partition("&")[0])
    assert not sockets.exists()


async def test_a_start_that_fails_says_why_and_gives_everything_back(made_data_dir: Path) -> None:
    with pytest.raises(PlatformError, match="no_such_setting"):
        await EmbeddedServers(made_data_dir, postgres_settings={"no_such_setting": "1"}).start()
    servers = EmbeddedServers(made_data_dir, redis=False, postgres_settings=FAST)
    await servers.start()
    await servers.stop()


async def test_a_damaged_state_file_is_not_overwritten(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o711)
    (data_dir / "embedded.json").write_text("{}")
    with pytest.raises(PlatformError, match="damaged"):
        await EmbeddedServers(data_dir, postgres_settings=FAST).start()


async def test_an_interrupted_initdb_is_begun_anew(data_dir: Path) -> None:
    half_made = data_dir / "postgres.new"
    half_made.mkdir(parents=True)
    data_dir.chmod(0o711)
    (half_made / "PG_VERSION").write_text("18\n")
    servers = EmbeddedServers(data_dir, redis=False, postgres_settings=FAST)
    await servers.start()
    await servers.stop()
    assert not half_made.exists()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account to drop to")


@needs_root
async def test_data_out_of_reach_is_kept_elsewhere(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "SYSTEM_ROOT", data_dir.parent / "system")
    closed = data_dir / "closed"
    closed.mkdir(parents=True, mode=0o700)
    data_dir.chmod(0o711)
    for turn in ([], ["once"]):
        servers = EmbeddedServers(closed / "data", postgres_settings=FAST)
        endpoints = await servers.start()
        if turn:
            assert await read(endpoints) == (turn, "once")
        else:
            await write(endpoints, "once")
        await servers.stop()
    (base,) = (data_dir.parent / "system").iterdir()
    assert (base / "postgres/PG_VERSION").exists()


@needs_root
def test_programs_out_of_reach_are_copied_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "SYSTEM_ROOT", data_dir.parent / "system")
    monkeypatch.setattr(accounts.Account, "can_walk_to", lambda self, path: False)
    account = accounts.choose()
    programs = binaries.postgres_programs(account)
    assert programs.postgres.is_relative_to(data_dir.parent / "system")
    made = programs.postgres.stat().st_ino
    assert binaries.postgres_programs(account).postgres.stat().st_ino == made
    valkey = binaries.valkey_program(account)
    assert valkey.is_relative_to(data_dir.parent / "system") and os.access(valkey, os.X_OK)
    assert [path.name for path in (data_dir.parent / "system").glob(".*")] == []


@needs_root
async def test_copied_programs_run(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "SYSTEM_ROOT", data_dir.parent / "system")
    walkable = accounts.Account.can_walk_to
    site = Path(asyncpg.__file__).parents[1]
    monkeypatch.setattr(
        accounts.Account,
        "can_walk_to",
        lambda self, path: walkable(self, path) and not path.is_relative_to(site),
    )
    servers = EmbeddedServers(data_dir, postgres_settings=FAST)
    await servers.start()
    await servers.stop()
