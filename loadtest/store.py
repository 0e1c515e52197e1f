"""The load of the message store: how fast it takes messages and hands out pushes, beside its floor.

A round takes the same messages three ways, one after the other, each for accounts of its own: through the
store; as the floor, the same batches with arrays made beforehand; and in one transaction a message. Then the
pushes that are owed are drained, and as the floor the same claims again. Medians of the rounds count. Without
TELESRV_LOAD_DEFER_DISPATCH a last part sends while pushes go out, as a server does.

What must be right always is: no error, no duplicate, everything sent, the outbox drained, no failed push, no
gap in any log.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from time import perf_counter
from typing import Annotated, Any, Final

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from loadtest import floor, one_by_one
from loadtest.world import FIRST_USER, SHIFT, add_accounts, messages, open_store, scratch_servers
from telesrv.domain.messages import SendRequest
from telesrv.domain.updates import OUTBOX_BUCKETS, OutboxRow
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


class LoadSettings(BaseSettings):
    """Environment variables TELESRV_LOAD_..., and TELESRV_OUTBOX_BATCH and _WORKERS."""

    model_config = SettingsConfigDict(env_prefix="TELESRV_LOAD_", extra="ignore", populate_by_name=True)

    users: int = Field(default=1000, ge=2)
    concurrency: Annotated[tuple[int, ...], NoDecode] = (32, 256)
    messages: int = Field(default=5000, ge=1)
    pool_conns: int = Field(default=50, ge=2)
    rounds: int = Field(default=3, ge=1)
    partitions: int = Field(default=16, ge=0)
    seed: int = 1
    defer_dispatch: bool = False
    enforce_slo: bool = False
    slo_messages_per_s: float = 200
    slo_send_p99_ms: float = 150
    slo_difference_p99_ms: float = 100
    postgres_dsn: str | None = None
    redis_url: str | None = None
    outbox_batch: int = Field(
        default=100, ge=1, validation_alias=AliasChoices("outbox_batch", "TELESRV_OUTBOX_BATCH")
    )
    outbox_workers: int = Field(
        default=2, ge=1, validation_alias=AliasChoices("outbox_workers", "TELESRV_OUTBOX_WORKERS")
    )

    @field_validator("concurrency", mode="before")
    @classmethod
    def _levels(cls, value: object) -> object:
        return tuple(map(int, value.split(","))) if isinstance(value, str) else value


@dataclass
class Level:
    """What was measured at one concurrency, or of the drain: rates in messages or rows a second."""

    name: str
    rates: list[float] = field(default_factory=list)
    floor_rates: list[float] = field(default_factory=list)
    one_by_one_rates: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    backlog: int = 0

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def of_floor(self) -> float | None:
        """The share of the floor that was reached: the median over rounds, whose halves are neighbours."""
        shares = [rate / limit for rate, limit in zip(self.rates, self.floor_rates, strict=False)]
        return median(shares) if shares else None

    @property
    def of_one_by_one(self) -> float | None:
        return self.rate / median(self.one_by_one_rates) if self.one_by_one_rates else None

    def percentile_ms(self, percent: int) -> float | None:
        return quantiles(self.latencies_ms, n=100)[percent - 1] if len(self.latencies_ms) > 1 else None


@dataclass
class Report:
    """All that a run found."""

    levels: dict[str, Level] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def level(self, name: str) -> Level:
        return self.levels.setdefault(name, Level(name))


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
        with _quiet_collector():
            seconds = await floor.run_sends(self._store, prepared)
        level.floor_rates.append(len(requests) / seconds)
        self._sent += len(requests)
        self._owed += 4 * len(requests)
        _, requests = await self._messages(len(requests) // _ONE_BY_ONE_SHARE or 1)
        with _quiet_collector():
            seconds = await one_by_one.run(self._store, requests, concurrency)
        level.one_by_one_rates.append(len(requests) / seconds)
        self._sent += len(requests)
        self._owed += 2 * len(requests)
        await self._drain(title)

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
        with _quiet_collector():
            async with self._bar(f"send, {title}", len(requests), lambda: len(latencies)):
                started = perf_counter()
                await asyncio.gather(*(client() for _ in range(concurrency)))
                seconds = perf_counter() - started
        await sends.close()
        level.latencies_ms += [1000 * latency for latency in latencies]
        level.batches += map(len, recorder.batches)
        self._sent += len(requests)
        return recorder, seconds

    async def _drain(self, title: str) -> None:
        """Pushes everything owed to nobody, then runs the floor of it."""
        level = self.report.level("drain")
        claims: list[list[tuple[int, Sequence[OutboxRow]]]] = []
        delivered = 0

        async def work(index: int, claimed: list[tuple[int, Sequence[OutboxRow]]]) -> None:
            nonlocal delivered
            outbox = self._store.outbox
            own = floor.buckets_of(index, self._settings.outbox_workers, OUTBOX_BUCKETS)
            while due := await outbox.due(own):
                for bucket in sorted(due):
                    rows = [item.row for item in await outbox.claim(bucket)]
                    if rows:
                        await outbox.done(rows)
                        claimed.append((bucket, rows))
                        delivered += len(rows)

        with _quiet_collector():
            async with self._bar(f"drain, {title}", self._owed, lambda: delivered):
                started = perf_counter()
                claims += [[] for _ in range(self._settings.outbox_workers)]
                await asyncio.gather(*(work(index, claimed) for index, claimed in enumerate(claims)))
                seconds = perf_counter() - started
        if delivered != self._owed:
            self._wrong(f"{self._owed} pushes were owed, {delivered} were claimed")
        level.rates.append(delivered / seconds)
        level.backlog = max(level.backlog, self._owed)
        level.batches += [len(rows) for claimed in claims for _, rows in claimed]
        with _quiet_collector():
            seconds, count = await floor.run_drain(self._store, claims)
        if count != delivered:
            self._wrong(f"the floor of the drain claimed {count} rows for {delivered}")
        level.floor_rates.append(delivered / seconds)
        self._owed = 0

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
                for bucket in sorted(await outbox.wait(0.1, own) or await outbox.due(own)):
                    while rows := [item.row for item in await outbox.claim(bucket)]:
                        await outbox.done(rows)
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

    def _bar(self, title: str, total: int, done: Callable[[], int]) -> _Bar:
        return _Bar(self._progress, title, total, done)


class _Bar:
    """A line of the progress, kept up to date while its block runs."""

    def __init__(self, progress: Progress, title: str, total: int, done: Callable[[], int]) -> None:
        self._progress = progress
        self._done = done
        self._line = progress.add_task(title, total=total)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        self._progress.update(self._line, completed=self._done())

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            self._progress.update(self._line, completed=self._done())


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keeps what was made beforehand out of the garbage collector's way while the block runs."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def sends(settings: LoadSettings, progress: Progress) -> Report:
    """The scenario of plain messages."""
    async with (
        scratch_servers(settings.postgres_dsn, settings.redis_url) as (postgres_dsn, redis_url),
        open_store(
            postgres_dsn,
            redis_url,
            pool_conns=settings.pool_conns,
            partitions=settings.partitions,
            outbox_batch=settings.outbox_batch,
        ) as store,
    ):
        load = StoreLoad(store, settings, progress)
        await load.run()
        return load.report


SCENARIOS: Final[dict[str, Callable[[LoadSettings, Progress], Coroutine[Any, Any, Report]]]] = {
    "sends": sends
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
        print(json.dumps(_as_json(report)))
    else:
        _print(report, console)
    if report.wrong:
        return 1
    return 2 if report.missed and settings.enforce_slo else 0


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "levels": [
            {
                "name": level.name,
                "rate": level.rate,
                "of_floor": level.of_floor,
                "of_one_by_one": level.of_one_by_one,
                "p50_ms": level.percentile_ms(50),
                "p99_ms": level.percentile_ms(99),
                "batch": median(level.batches) if level.batches else None,
                "backlog": level.backlog,
                "rates": level.rates,
                "floor_rates": level.floor_rates,
                "one_by_one_rates": level.one_by_one_rates,
            }
            for level in report.levels.values()
        ],
        "wrong": report.wrong,
        "missed": report.missed,
    }


def _print(report: Report, console: Console) -> None:
    table = Table(
        "", "a second", "floor", "of floor", "1 tx each", "times", "p50 ms", "p99 ms", "batch", "backlog"
    )
    for level in report.levels.values():
        limit = median(level.floor_rates) if level.floor_rates else None
        single = median(level.one_by_one_rates) if level.one_by_one_rates else None
        table.add_row(
            level.name,
            _number(level.rate, 0),
            _number(limit, 0),
            _number(level.of_floor, 2),
            _number(single, 0),
            _number(level.of_one_by_one, 1),
            _number(level.percentile_ms(50), 1),
            _number(level.percentile_ms(99), 1),
            _number(median(level.batches), 0) if level.batches else "",
            _number(level.backlog, 0) if level.backlog else "",
        )
    console.print(table)
    for text in report.wrong:
        console.print(f"[red]wrong:[/red] {text}")
    for text in report.missed:
        console.print(f"[yellow]missed:[/yellow] {text}")
    if not report.wrong:
        console.print("No error, no duplicate, everything sent, the outbox drained, no gap.")


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


__all__ = ["SCENARIOS", "LoadSettings", "Report", "StoreLoad", "run"]
