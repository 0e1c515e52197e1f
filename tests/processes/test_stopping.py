"""However the server ends: completely, soon where it had a say, and nothing that was confirmed is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from telesrv.tl import functions
from tests.processes.person import Person, no_bug
from tests.support.running import RunningServer
from tests.support.waiting import until

BY_FORCE = "did not end"
"""What the log says of each part that has to be killed, as it takes longer than it is given."""


def left_over(data_dir: Path) -> list[int]:
    """Returns the processes that were started for a data directory and run still."""
    mark = str(data_dir).encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                said = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            if mark in said:
                found.append(int(process.name))
    return found


async def end(server: RunningServer, way: str, orphans: Collection[int]) -> None:
    """Ends the server completely, in one of the ways in which it has a say; *orphans* are not its own."""
    signum = signal.SIGTERM if way == "terminate all" else signal.SIGINT
    assert await server.signal_all(signum) == 0
    assert BY_FORCE not in server.log_text()
    assert not set(left_over(server.data_dir)).difference(orphans), server.log_text()[-4000:]


async def test_every_way_to_end(directory: Path) -> None:
    server = RunningServer(directory / "stopped", TELESRV_WORKERS="2", TELESRV_POSTGRES_MIN_CONNS="2")
    await server.start()
    anna, boris = Person(server), Person(server)
    await anna.join()
    await boris.join()
    to_boris = await anna.peer(boris)
    said = []
    orphans: list[int] = []
    for way in ("kill", "terminate all", "interrupt all"):
        said.append(f"before: {way}")
        await anna.say(to_boris, said[-1])
        if way == "kill":
            # It is started again at once, while what it had started still notices.
            await server.kill()
            orphans = left_over(server.data_dir)
        else:
            await end(server, way, orphans)
        await anna.receive_to_end()
        if way == "interrupt all":
            break
        await server.start()
        await anna.connect()
        history = await anna.ask(
            functions.messages.GetHistory(
                peer=to_boris, offset_id=0, offset_date=0, add_offset=0, limit=10, max_id=0, min_id=0, hash=0
            )
        )
        assert [message.message for message in history.messages] == said[::-1]
    await anna.close()
    await boris.close()
    await until(lambda: not left_over(server.data_dir), "the orphans to end")
    no_bug(server)


async def test_a_server_whose_parts_hang_ends_in_the_time_of_one(directory: Path) -> None:
    server = RunningServer(directory / "hanging", TELESRV_WORKERS="1", TELESRV_POSTGRES_MIN_CONNS="2")
    await server.start()
    (worker,) = server.worker_pids()
    (valkey,) = (
        pid for pid in left_over(server.data_dir) if "valkey" in Path(f"/proc/{pid}/comm").read_text()
    )
    for pid in (worker, valkey):
        os.kill(pid, signal.SIGSTOP)
    assert await server.signal_all(signal.SIGTERM) == 0
    lines = [json.loads(line) for line in server.log_text().splitlines() if BY_FORCE in line]
    ended = {line["event"]: line for line in lines}
    assert set(ended) == {
        "a worker did not end in time and is killed",
        "an embedded server did not end; it was killed",
    }
    assert ended["an embedded server did not end; it was killed"]["grace_s"] < 10 - 6
    assert not left_over(server.data_dir)


async def test_an_end_that_hangs_is_cut_short() -> None:
    hanging = "import threading, telesrv.worker as w; w.end_within(0.1); threading.Event().wait()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", hanging), stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert b"Timeout (0:00:00.1" in said
    assert b"in wait" in said
