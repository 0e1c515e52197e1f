"""The load of the message store: how fast it takes messages and hands out pushes, beside its floor.

A round takes the same messages three ways, one after the other, each for accounts of its own: through the
store; as the floor, the same batches with arrays made beforehand; and in one transaction a message. Then the
pushes that are owed are drained, and as the floor the same claims again, before or after in turn. Medians of
the rounds count. Without TELESRV_LOAD_DEFER_DISPATCH a last part sends while pushes go out, as a server does.

What must be right always is: no error, no duplicate, everything sent, the outbox drained, no failed push, no
gap in any log.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from time import perf_counter
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loadtest import floor, mixed, one_by_one, search
from loadtest.report import Bar, Level, LoadSettings, Report, print_report, quiet_collector
from loadtest.report import as_json as report_as_json
from loadtest.world import FIRST_USER, SHIFT, add_accounts, deliver, messages, scratch_store
from telesrv.domain.messages import SendRequest
from telesrv.domain.updates import OUTBOX_BUCKETS
from telesrv.store import Store
from telesrv.store.committer import Committer
from telesrv.store.messages import MessageStore
from telesrv.store.send import BatchWriter, Outcome, PreparedSends

FLOOR_TARGET: Final = 0.7
ONE_BY_ONE_TARGET: Final = 6.0
TARGETS_AT: Final = 256
"""The concurrency that the two targets are for."""
_WIDTH: Final = 120
_ONE_BY_ONE_SHARE: Final = 4
"""One transaction a message is slow: it gets this fraction of the messages."""

COUNT = """
SELECT (SELECT count(*) FROM private_messages) AS bodies, (SELECT count(*) FROM message_boxes) AS boxes,
    (SELECT count(*) FROM user_update_events WHERE kind = 1) AS events,
    (SELECT coalesce(sum(unread_count), 0) FROM dialogs) AS unread
"""


class _Recorder(BatchWriter):
    """Writes as the store does, and keeps what came in one batch."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.pool, store.ids, store.events, store.config.clock, store.config.wait_s)
        self.batches: list[Sequence[SendRequest]] = []

    async def write(self, prepared: PreparedSends) -> tuple[list[Outcome], bool]:
        written = await super().write(prepared)
        self.batches.append(prepared.requests)
        return written


class StoreLoad:
    """One run over one store."""

    def __init__(self, store: Store, settings: LoadSettings, progress: Progress) -> None:
        self._store = store
        self._settings = settings
        self._progress = progress
        self._next_user = FIRST_USER
        self._seed = settings.seed
        self._sent = 0
        self._owed = 0
        self.report = Report()

    async def run(self) -> None:
        """Measures everything; what is wrong ends up in the report."""
        for level in self._settings.concurrency:
            for number in range(self._settings.rounds):
                await self._round(level, number)
        if not self._settings.defer_dispatch:
            for level in self._settings.concurrency:
                await self._live(level)
        await self._check()
        self._judge()

    async def _round(self, concurrency: int, number: int) -> None:
        title = f"{concurrency} at once, round {number + 1}"
        level = self.report.level(f"send, {concurrency} at once")
        users, requests = await self._messages()
        await add_accounts(self._store, [user_id + SHIFT for user_id in users])
        recorder, seconds = await self._fill(title, requests, concurrency, level)
        level.rates.append(len(requests) / seconds)
        prepared = floor.prepare_sends(recorder.batches)
        with quiet_collector():
            seconds = await floor.run_sends(self._store, prepared)
        level.floor_rates.append(len(requests) / seconds)
        self._sent += len(requests)
        self._owed += 4 * len(requests)
        _, requests = await self._messages(len(requests) // _ONE_BY_ONE_SHARE or 1)
        with quiet_collector():
            seconds = await one_by_one.run(self._store, requests, concurrency)
        level.one_by_one_rates.append(len(requests) / seconds)
        self._sent += len(requests)
        self._owed += 2 * len(requests)
        await self._drain(title, floor_first=number % 2 == 1)

    async def _messages(self, number: int | None = None) -> tuple[list[int], list[SendRequest]]:
        """Makes fresh accounts, and messages between them."""
        users = list(range(self._next_user, self._next_user + self._settings.users))
        self._next_user += self._settings.users
        self._seed += 1
        await add_accounts(self._store, users)
        return users, list(messages(users, number or self._settings.messages, self._seed))

    async def _fill(
        self, title: str, requests: Sequence[SendRequest], concurrency: int, level: Level
    ) -> tuple[_Recorder, float]:
        """Sends in a closed loop."""
        recorder = _Recorder(self._store)
        sends = Committer(recorder, self._store.config.wait_s)
        store = MessageStore(self._store.pool, sends, self._store.reads)
        left: Iterator[SendRequest] = iter(requests)
        latencies: list[float] = []

        async def client() -> None:
            for request in left:
                started = perf_counter()
                try:
                    sent = await store.send(request)
                except Exception as error:
                    self._wrong(f"a send failed: {error!r}")
                else:
                    latencies.append(perf_counter() - started)
                    if sent.duplicate:
                        self._wrong("a first send was answered as a repeat")

        sends.start()
        with quiet_collector():
            async with self._bar(f"send, {title}", len(requests), lambda: len(latencies)):
                started = perf_counter()
                await asyncio.gather(*(client() for _ in range(concurrency)))
                seconds = perf_counter() - started
        await sends.close()
        level.latencies_ms += [1000 * latency for latency in latencies]
        level.batches += map(len, recorder.batches)
        self._sent += len(requests)
        return recorder, seconds

    async def _drain(self, title: str, *, floor_first: bool) -> None:
        """Pushes everything owed to nobody, and runs the floor of it, on the same rows again."""
        rows = await floor.owed(self._store)
        if len(rows) != self._owed:
            self._wrong(f"{self._owed} pushes were owed, {len(rows)} are stored")
        level = self.report.level("drain")
        level.backlog = max(level.backlog, len(rows))
        if floor_first:
            await self._drain_floor(rows, level)
            await floor.owe_again(self._store, rows)
        claims: list[int] = []

        async def work(index: int) -> None:
            outbox = self._store.outbox
            own = floor.buckets_of(index, self._settings.outbox_workers, OUTBOX_BUCKETS)
            while due := await outbox.due(own):
                async for claimed in deliver(self._store, due):
                    claims.append(len(claimed))

        with quiet_collector():
            async with self._bar(f"drain, {title}", len(rows), lambda: sum(claims)):
                started = perf_counter()
                await asyncio.gather(*map(work, range(self._settings.outbox_workers)))
                seconds = perf_counter() - started
        if sum(claims) != len(rows):
            self._wrong(f"{len(rows)} pushes were owed, {sum(claims)} were claimed")
        level.rates.append(len(rows) / seconds)
        level.batches += claims
        if not floor_first:
            await floor.owe_again(self._store, rows)
            await self._drain_floor(rows, level)
        self._owed = 0

    async def _drain_floor(self, rows: Sequence[tuple[int, int, int]], level: Level) -> None:
        with quiet_collector():
            seconds, count = await floor.run_drain(
                self._store,
                rows,
                workers=self._settings.outbox_workers,
                batch=self._store.outbox.limit(range(OUTBOX_BUCKETS)),
            )
        if count != len(rows):
            self._wrong(f"the floor of the drain claimed {count} rows of {len(rows)}")
        level.floor_rates.append(len(rows) / seconds)

    async def _live(self, concurrency: int) -> None:
        """Sends while pushes go out."""
        level = self.report.level(f"send and push, {concurrency} at once")
        users, requests = await self._messages()
        delivered: set[tuple[int, int]] = set()
        pushed = 0
        sent_before = self._sent
        stop = asyncio.Event()

        async def work(index: int) -> None:
            nonlocal pushed
            outbox = self._store.outbox
            own = floor.buckets_of(index, self._settings.outbox_workers, OUTBOX_BUCKETS)
            while not (stop.is_set() and pushed >= 2 * len(requests)):
                async for rows in deliver(self._store, await outbox.wait(0.1, own) or await outbox.due(own)):
                    pushed += len(rows)
                    delivered.update((row.target_user_id, row.pts) for row in rows)

        async def watch() -> None:
            while not stop.is_set():
                waiting = await self._store.outbox.stats()
                level.backlog = max(level.backlog, waiting.waiting + waiting.leased)
                await asyncio.sleep(0.2)

        workers = [asyncio.create_task(work(index)) for index in range(self._settings.outbox_workers)]
        watcher = asyncio.create_task(watch())
        _, seconds = await self._fill(f"{concurrency} at once, pushing", requests, concurrency, level)
        stop.set()
        await asyncio.gather(*workers, watcher)
        level.rates.append(len(requests) / seconds)
        if len(delivered) != 2 * (self._sent - sent_before) or pushed != len(delivered):
            self._wrong(
                f"{2 * len(requests)} pushes were owed, {pushed} ({len(delivered)} of them first) came"
            )
        await self._differences(users)

    async def _differences(self, users: Sequence[int]) -> None:
        """Reads logs as clients do that were away."""
        level = self.report.level("getDifference")
        left = iter(users[:400])

        async def client() -> None:
            for user_id in left:
                started = perf_counter()
                await self._store.updates.difference(user_id, 0)
                level.latencies_ms.append(1000 * (perf_counter() - started))

        started = perf_counter()
        await asyncio.gather(*(client() for _ in range(8)))
        level.rates.append(len(users[:400]) / (perf_counter() - started))

    async def _check(self) -> None:
        """Finds out whether what must be right is right."""
        row = await self._store.pool.fetchrow(COUNT)
        assert row is not None
        found = dict(row)
        expected = {
            "bodies": self._sent,
            "boxes": 2 * self._sent,
            "events": 2 * self._sent,
            "unread": self._sent,
        }
        if found != expected:
            self._wrong(f"{expected} was expected, {found} is stored")
        stats = await self._store.outbox.stats()
        if stats.waiting or stats.leased or stats.failed:
            self._wrong(f"the outbox is not drained: {stats}")
        _, gaps = await self._store.gaps.find()
        if gaps:
            self._wrong(f"{len(gaps)} gaps in the logs, the first {gaps[0]}")

    def _judge(self) -> None:
        """Compares with what is wanted."""
        settings, missed = self._settings, self.report.missed
        for level in self.report.levels.values():
            p99 = level.percentile_ms(99)
            if level.name.startswith("send"):
                if level.rate < settings.slo_messages_per_s:
                    missed.append(
                        f"{level.name}: {level.rate:.0f} msg/s, not {settings.slo_messages_per_s:.0f}"
                    )
                if p99 is not None and p99 > settings.slo_send_p99_ms:
                    missed.append(f"{level.name}: p99 {p99:.0f} ms, not {settings.slo_send_p99_ms:.0f}")
            if level.name == "getDifference" and p99 is not None and p99 > settings.slo_difference_p99_ms:
                missed.append(f"getDifference: p99 {p99:.0f} ms, not {settings.slo_difference_p99_ms:.0f}")
            aimed_at = level.name in ("drain", f"send, {TARGETS_AT} at once")
            share, times = level.of_floor, level.of_one_by_one
            if aimed_at and share is not None and share < FLOOR_TARGET:
                missed.append(f"{level.name}: {share:.2f} of the floor, not {FLOOR_TARGET}")
            if aimed_at and times is not None and times < ONE_BY_ONE_TARGET:
                missed.append(
                    f"{level.name}: {times:.1f} times one transaction a message, not {ONE_BY_ONE_TARGET:.0f}"
                )

    def _wrong(self, text: str) -> None:
        if text not in self.report.wrong:
            self.report.wrong.append(text)

    def _bar(self, title: str, total: int, done: Callable[[], int]) -> Bar:
        return Bar(self._progress, title, total, done)


async def sends(settings: LoadSettings, progress: Progress) -> Report:
    """The scenario of plain messages."""
    async with scratch_store(settings) as store:
        load = StoreLoad(store, settings, progress)
        await load.run()
        return load.report


SCENARIOS: Final[dict[str, Callable[[LoadSettings, Progress], Coroutine[Any, Any, Report]]]] = {
    "sends": sends,
    "mixed": mixed.mixed,
    "search": search.search,
}
"""By the name that `--scenario` takes."""


def run(*, scenario: str = "sends", as_json: bool = False) -> int:
    """Runs a scenario and prints what it found; returns the exit code: 1 when something is wrong, 2 when
    only the aims are missed and TELESRV_LOAD_ENFORCE_SLO is set."""
    import uvloop  # noqa: PLC0415 - what only imports the settings does not need it

    settings = LoadSettings()
    console = Console(stderr=as_json, width=None if sys.stderr.isatty() else _WIDTH)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        report = uvloop.run(SCENARIOS[scenario](settings, progress))
    if as_json:
        print(json.dumps(report_as_json(report)))
    else:
        print_report(report, console)
    if report.wrong:
        return 1
    return 2 if report.missed and settings.enforce_slo else 0


__all__ = ["SCENARIOS", "LoadSettings", "Report", "StoreLoad", "run"]
