"""The faults: each is done to a world, and is over when it returns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from telesrv.platform.process import Child
from tests.faults.world import World, until

Action = Callable[[World, Random], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong; `action` returns what exactly it did."""

    name: str
    action: Action


async def kill_worker(world: World, random: Random) -> str:
    """A worker dies, as by a crash or by the kernel when memory is short."""
    pids = world.worker_pids()
    victim = random.randrange(len(pids))
    os.kill(pids[victim], signal.SIGKILL)
    await until("the worker is gone", lambda: pids[victim] not in world.worker_pids())
    return f"worker {victim + 1} of {len(pids)}"


async def flush_valkey(world: World, random: Random) -> str:
    """Valkey loses everything at once and goes on."""
    count = await world.redis.dbsize()
    await world.redis.flushall()
    return f"{count} keys"


async def old_valkey(world: World, random: Random) -> str:
    """Valkey goes back to what it had before the last fault."""
    await world.restore_valkey()
    return "an old copy"


def _end_store(choose: Callable[[World], Child], signum: signal.Signals) -> Action:
    async def end(world: World, random: Random) -> str:
        child = choose(world)
        restarts, pid = child.restarts, child.pid
        assert pid is not None
        os.kill(pid, signum)
        await world.restarted(child, restarts)
        return signum.name

    return end


def cut_link(duration_s: float) -> Fault:
    """The way to PostgreSQL breaks; connections are reset and refused."""

    async def cut(world: World, random: Random) -> str:
        world.link.cut()
        try:
            await asyncio.sleep(duration_s)
        finally:
            world.link.mend()
        return f"for {duration_s:.0f} s"

    return Fault("cut the link to PostgreSQL", cut)


def freeze_link(duration_s: float) -> Fault:
    """The way to PostgreSQL swallows every byte and says nothing."""

    async def freeze(world: World, random: Random) -> str:
        world.link.freeze()
        try:
            await asyncio.sleep(duration_s)
        finally:
            world.link.mend()
        return f"for {duration_s:.0f} s"

    return Fault("freeze the link to PostgreSQL", freeze)


def stop_worker(duration_s: float) -> Fault:
    """A worker stands still, as on a machine that swaps or is suspended, and goes on."""

    async def stop(world: World, random: Random) -> str:
        pids = world.worker_pids()
        victim = random.randrange(len(pids))
        os.kill(pids[victim], signal.SIGSTOP)
        try:
            await asyncio.sleep(duration_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[victim], signal.SIGCONT)
        return f"worker {victim + 1} of {len(pids)} for {duration_s:.0f} s"

    return Fault("stop a worker", stop)


KILL_WORKER = Fault("kill -9 a worker", kill_worker)
KILL_VALKEY = Fault("kill -9 Valkey", _end_store(lambda world: world.valkey, signal.SIGKILL))
FLUSH_VALKEY = Fault("FLUSHALL", flush_valkey)
OLD_VALKEY = Fault("restore an old Valkey", old_valkey)
RESTART_FAST = Fault("restart PostgreSQL, fast", _end_store(lambda world: world.postgres, signal.SIGINT))
RESTART_IMMEDIATE = Fault(
    "restart PostgreSQL, immediate", _end_store(lambda world: world.postgres, signal.SIGQUIT)
)


def long_plan() -> list[Fault]:
    """Returns the whole campaign, in no order yet."""
    return [
        *[KILL_WORKER] * 20,
        *[KILL_VALKEY] * 5,
        *[FLUSH_VALKEY] * 5,
        *[OLD_VALKEY] * 5,
        *[RESTART_FAST] * 5,
        *[RESTART_IMMEDIATE] * 5,
        *[cut_link(10)] * 3,
        *[freeze_link(10)] * 2,
        *[stop_worker(30)] * 2,
    ]
