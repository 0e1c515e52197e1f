"""Migrations: each once, in order, whole or not at all, and never changed afterwards."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from telesrv.platform.migrate import (
    DIRECTORY,
    MigrationError,
    load,
    migrate,
    partition_names,
    pending,
    render,
)

BOXES = """\
CREATE TABLE boxes (
    owner_user_id bigint NOT NULL,
    box_id bigint NOT NULL CHECK (box_id > 0),
    PRIMARY KEY (owner_user_id, box_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions boxes WITH (fillfactor = 80)
CREATE INDEX boxes_by_id ON boxes (owner_user_id, box_id DESC);
"""


def files(directory: Path, **texts: str) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in texts.items():
        (directory / f"{name.removeprefix('m')}.sql").write_text(text)
    return directory


async def tables(dsn: str) -> set[str]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    finally:
        await connection.close()
    return {row["tablename"] for row in rows} - {"schema_migrations", "schema_settings"}


def test_partitions_are_written_out() -> None:
    sql = render(BOXES, 3)
    for remainder, name in enumerate(("boxes_p00", "boxes_p01", "boxes_p02")):
        assert (
            f"CREATE TABLE {name} PARTITION OF boxes FOR VALUES WITH "
            f"(MODULUS 3, REMAINDER {remainder}) WITH (fillfactor = 80);" in sql
        )
    assert "telesrv:" not in sql


def test_no_partitions_means_a_plain_table() -> None:
    sql = render(BOXES, 0)
    assert "PARTITION" not in sql
    assert "PRIMARY KEY (owner_user_id, box_id)\n);" in sql
    assert "ALTER TABLE boxes SET (fillfactor = 80);" in sql


def test_partition_names_sort_like_their_remainders() -> None:
    names = partition_names("t", 128)
    assert names == sorted(names)
    assert partition_names("t", 16)[-1] == "t_p15"


@pytest.mark.parametrize(
    "text",
    [
        "-- telesrv:partitions absent",
        "-- telesrv:shards t",
        "-- telesrv:partitions",
        BOXES.replace("HASH", "LIST"),
    ],
)
def test_an_instruction_that_cannot_be_followed_is_an_error(text: str) -> None:
    with pytest.raises(MigrationError):
        render(text, 4)


@pytest.mark.parametrize("partitions", [0, 1, 5])
async def test_both_kinds_of_table_work(empty_postgres_dsn: str, tmp_path: Path, partitions: int) -> None:
    directory = files(tmp_path, m0001_boxes=BOXES)
    assert (await migrate(empty_postgres_dsn, partitions, directory)).applied == ("0001_boxes",)
    assert await tables(empty_postgres_dsn) == {"boxes", *partition_names("boxes", partitions)}


async def test_each_is_applied_once_and_in_order(empty_postgres_dsn: str, tmp_path: Path) -> None:
    directory = files(tmp_path, m0002_b="ALTER TABLE a ADD y int", m0001_a="CREATE TABLE a (x int)")
    assert (await migrate(empty_postgres_dsn, 4, directory)).applied == ("0001_a", "0002_b")
    assert await pending(empty_postgres_dsn, directory) == []
    files(tmp_path, m0004_c="CREATE TABLE c (x int)")
    assert await pending(empty_postgres_dsn, directory) == ["0004_c"]
    assert (await migrate(empty_postgres_dsn, 4, directory)).applied == ("0004_c",)
    assert (await migrate(empty_postgres_dsn, 4, directory)).applied == ()


async def test_one_that_fails_leaves_nothing_behind(empty_postgres_dsn: str, tmp_path: Path) -> None:
    directory = files(
        tmp_path, m0001_a="CREATE TABLE a (x int)", m0002_b="CREATE TABLE b (x int); SELECT nonsense"
    )
    with pytest.raises(MigrationError, match=r"0002_b\.sql: .*nonsense"):
        await migrate(empty_postgres_dsn, 4, directory)
    assert await tables(empty_postgres_dsn) == {"a"}
    files(tmp_path, m0002_b="CREATE TABLE b (x int)")
    assert (await migrate(empty_postgres_dsn, 4, directory)).applied == ("0002_b",)


async def test_one_that_was_changed_is_refused(empty_postgres_dsn: str, tmp_path: Path) -> None:
    directory = files(tmp_path, m0001_a="CREATE TABLE a (x int)")
    await migrate(empty_postgres_dsn, 4, directory)
    files(tmp_path, m0001_a="CREATE TABLE a (x bigint)")
    with pytest.raises(MigrationError, match="changed after"):
        await migrate(empty_postgres_dsn, 4, directory)


async def test_one_that_comes_too_late_is_refused(empty_postgres_dsn: str, tmp_path: Path) -> None:
    directory = files(tmp_path, m0002_b="CREATE TABLE b (x int)")
    await migrate(empty_postgres_dsn, 4, directory)
    files(tmp_path, m0001_a="CREATE TABLE a (x int)")
    with pytest.raises(MigrationError, match="0001_a"):
        await migrate(empty_postgres_dsn, 4, directory)
    assert await tables(empty_postgres_dsn) == {"b"}


async def test_a_database_of_a_newer_server_is_left_alone(empty_postgres_dsn: str, tmp_path: Path) -> None:
    newer = files(tmp_path / "newer", m0001_a="CREATE TABLE a (x int)", m0002_b="CREATE TABLE b (x int)")
    older = files(tmp_path / "older", m0001_a="CREATE TABLE a (x int)")
    await migrate(empty_postgres_dsn, 4, newer)
    with pytest.raises(MigrationError, match="newer server"):
        await migrate(empty_postgres_dsn, 4, older)


async def test_the_partition_count_stays_what_it_was(empty_postgres_dsn: str, tmp_path: Path) -> None:
    directory = files(tmp_path, m0001_boxes=BOXES)
    await migrate(empty_postgres_dsn, 2, directory)
    files(tmp_path, m0002_more=BOXES.replace("boxes", "more"))
    assert (await migrate(empty_postgres_dsn, 9, directory)).partitions == 2
    assert {"more_p00", "more_p01"} <= await tables(empty_postgres_dsn)
    assert "more_p02" not in await tables(empty_postgres_dsn)


async def test_processes_that_start_together_take_turns(empty_postgres_dsn: str, tmp_path: Path) -> None:
    directory = files(tmp_path, m0001_boxes=BOXES, m0002_b="CREATE TABLE b (x int)")
    results = await asyncio.gather(*(migrate(empty_postgres_dsn, 4, directory) for _ in range(20)))
    assert sorted(name for result in results for name in result.applied) == ["0001_boxes", "0002_b"]


async def test_who_may_make_nothing_is_told_what_to_do(empty_postgres_dsn: str, tmp_path: Path) -> None:
    visitor = f"visitor_{secrets.token_hex(6)}"
    parts = urlsplit(empty_postgres_dsn)
    dsn = urlunsplit(parts._replace(netloc=f"{visitor}:secret@{parts.netloc.rpartition('@')[2]}"))
    connection = await asyncpg.connect(empty_postgres_dsn)
    try:
        await connection.execute(f"CREATE ROLE {visitor} LOGIN PASSWORD 'secret'")
        try:
            with pytest.raises(MigrationError, match="make the user of TELESRV_POSTGRES_DSN the owner"):
                await migrate(dsn, 4, files(tmp_path, m0001_a="CREATE TABLE a (x int)"))
        finally:
            await connection.execute(f"DROP ROLE {visitor}")
    finally:
        await connection.close()


@pytest.mark.parametrize("name", ["1_short.sql", "0001-dash.sql", "0001_Big.sql"])
def test_a_file_of_another_name_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(MigrationError, match="NNNN_name"):
        load(tmp_path)


def test_two_files_of_one_number_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(MigrationError, match="same number"):
        load(files(tmp_path, m0001_a="", m0001_b=""))


@pytest.mark.parametrize("partitions", [0, 16])
async def test_the_project_s_own_migrations_apply(empty_postgres_dsn: str, partitions: int) -> None:
    assert (await migrate(empty_postgres_dsn, partitions)).applied == tuple(m.name for m in load(DIRECTORY))
