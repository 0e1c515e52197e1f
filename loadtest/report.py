"""What every load of the store has in common: its settings, what it finds, and how that is shown."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Annotated, Any, Final

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from telesrv.platform.connections import at_once_each


class LoadSettings(BaseSettings):
    """Environment variables TELESRV_LOAD_..., and TELESRV_OUTBOX_BATCH and _WORKERS."""

    model_config = SettingsConfigDict(env_prefix="TELESRV_LOAD_", extra="ignore", populate_by_name=True)

    users: int = Field(default=1000, ge=2)
    concurrency: Annotated[tuple[int, ...], NoDecode] = (32, 256)
    messages: int = Field(default=5000, ge=1)
    pool_conns: int = Field(default=50, ge=2)
    at_once: int = Field(
        default_factory=lambda: at_once_each(1),
        ge=2,
        validation_alias=AliasChoices("at_once", "TELESRV_POSTGRES_AT_ONCE"),
    )
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


class Bar:
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
def quiet_collector() -> Iterator[None]:
    """Keeps what was made beforehand out of the garbage collector's way while the block runs."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def as_json(report: Report) -> dict[str, Any]:
    """Returns the report for programs."""
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


def print_report(report: Report, console: Console) -> None:
    """Prints the report as a table of what was measured at all, and below it what is wrong or missed."""
    levels = list(report.levels.values())
    columns = [(title, [cell(level) for level in levels]) for title, cell in _COLUMNS]
    table = Table("", *(title for title, cells in columns if any(cells)))
    shown = [cells for _, cells in columns if any(cells)]
    for level, *cells in zip(levels, *shown, strict=True):
        table.add_row(level.name, *cells)
    console.print(table)
    for text in report.wrong:
        console.print(f"[red]wrong:[/red] {text}")
    for text in report.missed:
        console.print(f"[yellow]missed:[/yellow] {text}")
    if not report.wrong:
        console.print("No error, no duplicate, everything sent, the outbox drained, no gap.")


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _median(values: Sequence[float]) -> str:
    return _number(median(values), 0) if values else ""


_COLUMNS: Final[tuple[tuple[str, Callable[[Level], str]], ...]] = (
    ("a second", lambda level: _number(level.rate, 0)),
    ("floor", lambda level: _median(level.floor_rates)),
    ("of floor", lambda level: _number(level.of_floor, 2)),
    ("1 tx each", lambda level: _median(level.one_by_one_rates)),
    ("times", lambda level: _number(level.of_one_by_one, 1)),
    ("p50 ms", lambda level: _number(level.percentile_ms(50), 1)),
    ("p99 ms", lambda level: _number(level.percentile_ms(99), 1)),
    ("batch", lambda level: _median(level.batches)),
    ("backlog", lambda level: _number(level.backlog or None, 0)),
)
