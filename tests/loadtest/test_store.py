"""A small run of the load of the store: what it counts is there, and nothing is wrong."""

from __future__ import annotations

import contextlib
import io

import asyncpg
import pytest
from rich.console import Console
from rich.progress import Progress

from loadtest.mixed import WEIGHTS, MixedLoad
from loadtest.store import LoadSettings, Report, StoreLoad
from loadtest.world import open_store, scratch_servers


async def load(settings: LoadSettings, postgres_dsn: str, redis_url: str) -> Report:
    async with open_store(postgres_dsn, redis_url, pool_conns=6, partitions=4, outbox_batch=20) as store:
        load = StoreLoad(store, settings, Progress(console=Console(file=io.StringIO())))
        await load.run()
        return load.report


def settings(**fields: object) -> LoadSettings:
    return LoadSettings.model_validate(
        {"users": 10, "concurrency": "8", "messages": 60, "rounds": 1, **fields}
    )


async def test_a_run_measures_every_way_and_finds_nothing_wrong(
    empty_postgres_dsn: str, redis_url: str
) -> None:
    report = await load(settings(), empty_postgres_dsn, redis_url)
    assert report.wrong == []
    send = report.levels["send, 8 at once"]
    assert (len(send.rates), len(send.floor_rates), len(send.one_by_one_rates)) == (1, 1, 1)
    assert sum(send.batches) == len(send.latencies_ms) == 60
    drain = report.levels["drain"]
    assert drain.backlog == 4 * 60 + 2 * 15
    assert drain.of_floor is not None
    assert {"send and push, 8 at once", "getDifference"} <= report.levels.keys()


async def test_aims_that_are_missed_are_named(empty_postgres_dsn: str, redis_url: str) -> None:
    aims = settings(defer_dispatch=True, slo_messages_per_s=1e9, slo_send_p99_ms=0)
    report = await load(aims, empty_postgres_dsn, redis_url)
    assert report.wrong == []
    assert len(report.missed) >= 2
    assert all(text.startswith("send, 8 at once") for text in report.missed[:2])
    assert "getDifference" not in report.levels


async def test_a_mixed_run_takes_steps_of_every_kind_and_finds_nothing_wrong(
    empty_postgres_dsn: str, redis_url: str
) -> None:
    wanted = settings(messages=300, concurrency="8,16")
    async with open_store(
        empty_postgres_dsn, redis_url, pool_conns=6, partitions=4, outbox_batch=20
    ) as store:
        load = MixedLoad(store, wanted, Progress(console=Console(file=io.StringIO())))
        await load.run()
        assert load.report.wrong == []
        levels = load.report.levels
        for level in ("8 at once", "16 at once"):
            steps = [len(levels[f"{name}, {level}"].latencies_ms) for name in WEIGHTS]
            assert all(steps)
            assert sum(steps) == len(levels[f"all, {level}"].latencies_ms) == 300
        # A counter that is off is found.
        await store.pool.execute("UPDATE dialogs SET unread_count = unread_count + 1")
        await load._check()
        assert any("disagree" in text for text in load.report.wrong)


async def scratch_databases(dsn: str) -> set[str]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'telesrv_load_%'")
    finally:
        await connection.close()
    return {row["datname"] for row in rows}


@pytest.mark.parametrize("ends", [contextlib.nullcontext(), pytest.raises(LookupError)])
async def test_a_scratch_database_goes_however_the_load_ends(
    empty_postgres_dsn: str, redis_url: str, ends: contextlib.AbstractContextManager[object]
) -> None:
    with ends as failure:
        async with scratch_servers(empty_postgres_dsn, redis_url) as (scratch_dsn, _):
            [name] = await scratch_databases(empty_postgres_dsn)
            assert f"/{name}?" in scratch_dsn
            if failure is not None:
                raise LookupError
    assert await scratch_databases(empty_postgres_dsn) == set()


def test_levels_are_a_list() -> None:
    assert settings(concurrency="1,32,256").concurrency == (1, 32, 256)
