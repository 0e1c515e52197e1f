"""Work goes on whatever a turn does, and ends when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from telesrv.domain.errors import Unavailable
from telesrv.outbox.turns import Turns

NEVER_S = 3600.0


class Work:
    """Turns that do as they are told, one after the other, and then nothing."""

    def __init__(self, *outcomes: bool | Exception) -> None:
        self._outcomes = list(outcomes)
        self.count = 0
        self.done = asyncio.Event()

    async def turn(self) -> bool:
        self.count += 1
        if not self._outcomes:
            self.done.set()
            return False
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
async def turns() -> AsyncIterator[Turns]:
    turns = Turns(patience_s=NEVER_S)
    yield turns
    await turns.stop()


async def test_what_left_more_is_followed_at_once(turns: Turns) -> None:
    work = Work(True, True)
    turns.begin("work", work.turn, NEVER_S)
    await work.done.wait()
    assert work.count == 3


async def test_a_failure_is_told_and_pauses_only_its_own_work(turns: Turns) -> None:
    fails, waits, works = Work(KeyError("a bug")), Work(Unavailable("PostgreSQL")), Work(True)
    with structlog.testing.capture_logs() as logged:
        turns.begin("fails", fails.turn, NEVER_S)
        turns.begin("waits", waits.turn, NEVER_S)
        turns.begin("works", works.turn, NEVER_S)
        await works.done.wait()
    assert (fails.count, waits.count) == (1, 1)
    assert {(line["work"], line["log_level"]) for line in logged} == {
        ("fails", "error"),
        ("waits", "warning"),
    }


async def test_it_goes_on_after_every_failure(turns: Turns) -> None:
    work = Work(KeyError("a bug"), Unavailable("Redis"), OSError("no file"), TimeoutError())
    turns.begin("work", work.turn, 0.0)
    await work.done.wait()
    assert work.count >= 5


async def test_a_turn_under_way_may_end() -> None:
    turns = Turns(patience_s=NEVER_S)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def turn() -> bool:
        begun.set()
        await turns.stopping.wait()
        await asyncio.sleep(0)
        ended.set()
        return True

    turns.begin("work", turn, NEVER_S)
    await begun.wait()
    await turns.stop()
    assert ended.is_set()


async def test_a_turn_that_does_not_end_is_ended() -> None:
    turns = Turns(patience_s=0)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def turn() -> bool:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return True

    turns.begin("work", turn, NEVER_S)
    await begun.wait()
    await turns.stop()
    assert ended.is_set()
