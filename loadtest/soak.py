"""The long fault campaign: real clients chat for as long as one likes while everything around the server
breaks; after each fault it is proved that nothing was lost (tests/faults/campaign.py says what that takes).

It runs a whole server of its own, stores included, and touches no other. One line a fault, the seed first; a
failure ends it with exit code 1 and leaves everything in place to look at.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import structlog
import uvloop
from rich.console import Console
from rich.status import Status
from rich.table import Table

from telesrv.platform import EmbeddedServers, migrate
from telesrv.platform.postgres import UNSAFE_FAST

MODEL_SHARE = 0.2
"""Of the time: for the model test, before the faults."""
MODEL_STEPS = 2_000
MODEL_PARTITIONS = 4


def run(*, minutes: float, seed: int, only: str) -> int:
    """Runs the campaign; returns the exit code.

    Args:
        minutes: no fault begins later than this.
        seed: decides the order of the faults and their victims.
        only: with it, only faults whose name contains it.
    """
    sys.path.insert(0, str(Path(__file__).parent.parent))
    campaigns = importlib.import_module("tests.faults.campaign")
    faults = importlib.import_module("tests.faults.faults")
    worlds = importlib.import_module("tests.faults.world")
    plan = [fault for fault in faults.long_plan() if only in fault.name]
    if not plan:
        names = sorted({fault.name for fault in faults.long_plan()})
        print(f"no fault is called {only!r}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    # A client that loses its link, and a store that is restarted, are what this is about.
    logging.getLogger("telethon").setLevel(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    directory = Path(tempfile.mkdtemp(prefix="telesrv-soak-"))
    if not only and not _modelled(seed, time.monotonic() + 60 * minutes * MODEL_SHARE):
        return 1
    soak = _Soak(campaigns.Campaign, plan, seed, time.monotonic() + 60 * minutes)
    print(f"seed {seed}, up to {minutes:g} minutes, {len(plan)} faults a round, in {directory}", flush=True)
    world = worlds.World(directory)
    try:
        sound = asyncio.run(soak.run(world))
    except KeyboardInterrupt:
        print("interrupted; nothing had broken so far")
        sound = True
    if sound:
        world.remove()
        return 0
    print(f"again: make soak MINUTES={minutes:g} SEED={seed}; the server's log: {world.server.log_file}")
    return 1


def _modelled(seed: int, until: float) -> bool:
    """Runs the model test with one seed after the other; returns whether all ways of knowing agreed."""
    model = importlib.import_module("tests.model.world")
    count = 0
    print(f"model: runs of {MODEL_STEPS} steps, for a fifth of the time", flush=True)
    while time.monotonic() < until:
        started = time.monotonic()
        try:
            uvloop.run(_model(model, seed + count))
        except AssertionError as error:
            print(f"model: BROKEN  {error}\nagain: make soak SEED={seed + count}")
            return False
        print(f"model: seed {seed + count} ok, in {time.monotonic() - started:.0f} s", flush=True)
        count += 1
    return True


async def _model(model: Any, seed: int) -> None:
    """One run on stores of its own."""
    with tempfile.TemporaryDirectory(prefix="telesrv-model-") as name:
        os.chmod(name, 0o711)  # noqa: S103 - the account that PostgreSQL runs as must get in
        servers = EmbeddedServers(Path(name), postgres_settings=UNSAFE_FAST)
        try:
            endpoints = await servers.start()
            await migrate(endpoints.postgres_dsn, MODEL_PARTITIONS)
            await model.run(endpoints.postgres_dsn, endpoints.redis_url, "model:", seed, MODEL_STEPS)
        finally:
            await servers.stop()


class _Soak:
    """Rounds of faults until the time is over or one breaks something."""

    def __init__(self, campaign: Any, plan: list[Any], seed: int, until: float) -> None:
        self._campaign = campaign
        self._plan = plan
        self._seed = seed
        self._until = until
        self._console = Console()
        self._status = Status("starting", console=self._console)
        self._done: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        self._slowest: dict[str, float] = {}

    async def run(self, world: Any) -> bool:
        """Returns whether nothing broke."""
        if self._console.is_terminal:
            self._status.start()
        try:
            async with world:
                campaign = self._campaign(world, self._seed, say=self._status.update)
                await campaign.start()
                sound = await self._rounds(campaign)
                self._status.update("stopping")
                await campaign.close()
        finally:
            self._status.stop()
        self._print_totals()
        return sound

    async def _rounds(self, campaign: Any) -> bool:
        while True:
            for fault in campaign.shuffled(self._plan):
                if time.monotonic() > self._until:
                    return True
                number = self._done.total() + 1
                try:
                    result = await campaign.run(fault)
                except Exception as error:
                    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                    self._line(f"{number:4d}  BROKEN  {fault.name}: {kind}{error}")
                    return False
                self._line(f"{number:4d}  ok  {result}")
                self._done[fault.name] += 1
                self._sent[fault.name] += result.sent
                self._slowest[fault.name] = max(self._slowest.get(fault.name, 0.0), result.away_s)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _print_totals(self) -> None:
        table = Table("fault", "times", "sends answered", "longest without answers")
        for name, count in sorted(self._done.items()):
            table.add_row(name, str(count), str(self._sent[name]), f"{self._slowest[name]:.1f} s")
        self._console.print(table)
