"""The schema, step by step: every file of `migrations/` is applied once, in order, and never changed after.

A migration is `NNNN_name.sql`. It runs in one transaction together with the row that records it, so a
database is never between two of them. Processes that start together take turns by a lock. A comment line
is an instruction:

    -- telesrv:partitions TABLE [WITH (storage parameters)]
        after `CREATE TABLE TABLE (...) PARTITION BY HASH (column);`: makes TABLE_p00, TABLE_p01, ...
        With 0 partitions (as Citus wants it, which shards the table itself) the PARTITION BY clause is
        dropped and the storage parameters go to the table.

The number of partitions is fixed when the database is made: it is stored in it, and later runs use the stored
one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import asyncpg
import structlog

from telesrv.platform.errors import PlatformError

log = structlog.get_logger("telesrv.platform")

_CONNECT_S: Final = 10.0
DIRECTORY: Final = Path(__file__).parents[2] / "migrations"

_NAME = re.compile(r"(?P<number>[0-9]{4})_[a-z0-9_]+\.sql")
_INSTRUCTION = re.compile(r"^--\s*telesrv:(?P<verb>\w+)(?P<rest>.*)$", re.MULTILINE)
_PARTITIONS = re.compile(r"\s+(?P<table>[a-z_][a-z0-9_]*)(?:\s+WITH\s*\((?P<storage>[^)]*)\))?\s*")

# One transaction. CREATE TABLE IF NOT EXISTS alone fails in several ways when two processes come at once.
_BOOTSTRAP = """
SELECT pg_advisory_xact_lock(hashtext('telesrv schema_migrations'));
CREATE TABLE IF NOT EXISTS schema_migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS schema_settings (
    name text PRIMARY KEY,
    value text NOT NULL
);
"""


class MigrationError(PlatformError):
    """The schema cannot be brought up to date; the text says which file and why."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number, its name and its text as written."""

    number: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        """What is recorded to notice a file that was changed after it had been applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a run did: the names it applied, and the partition count that the database has."""

    applied: tuple[str, ...]
    partitions: int


def load(directory: Path = DIRECTORY) -> list[Migration]:
    """The migrations in order.

    Raises:
        MigrationError: a name is not `NNNN_name.sql`, or two have one number.
    """
    found: list[Migration] = []
    for path in sorted(directory.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise MigrationError(f"{path.name}: call a migration NNNN_name.sql, in small letters")
        found.append(Migration(int(match["number"]), path.stem, path.read_text(encoding="utf-8")))
    for one, other in pairwise(found):
        if one.number == other.number:
            raise MigrationError(f"{other.name}.sql: {one.name}.sql has the same number")
    return found


def render(text: str, partitions: int) -> str:
    """The SQL of a migration for a database with so many partitions.

    Raises:
        MigrationError: an instruction is unknown or names a table that the text does not create partitioned.
    """
    for instruction in _INSTRUCTION.finditer(text):
        match = _PARTITIONS.fullmatch(instruction["rest"])
        if instruction["verb"] != "partitions" or match is None:
            raise MigrationError(f"unknown instruction: {instruction[0]}")
        table, storage = match["table"], match["storage"]
        clause = re.compile(
            rf"(CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{table}\s*\([^;]*?\))(\s*PARTITION\s+BY\s+HASH\s*\([^)]*\))\s*;",
            re.IGNORECASE,
        )
        created = clause.search(text)
        if created is None:
            raise MigrationError(
                f"no CREATE TABLE {table} (...) PARTITION BY HASH (...); before: {instruction[0]}"
            )
        if partitions == 0:
            text = text.replace(created[0], f"{created[1]};")
            statements = [f"ALTER TABLE {table} SET ({storage});"] if storage else []
        else:
            suffix = f" WITH ({storage})" if storage else ""
            statements = [
                f"CREATE TABLE {partition} PARTITION OF {table} "
                f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {remainder}){suffix};"
                for remainder, partition in enumerate(partition_names(table, partitions))
            ]
        text = text.replace(instruction[0], "\n".join(statements))
    return text


def partition_names(table: str, partitions: int) -> Iterable[str]:
    """The names of a table's partitions, in the order of their remainders."""
    width = max(2, len(str(partitions - 1)))
    return [f"{table}_p{remainder:0{width}d}" for remainder in range(partitions)]


async def migrate(dsn: str, partitions: int, directory: Path = DIRECTORY) -> Migrated:
    """Brings the database up to date; safe to call from several processes at once.

    Raises:
        MigrationError: the server cannot be reached or lets nothing be made, a file fails, was changed
        after it was applied, or the database is newer than the files.
    """
    migrations = load(directory)
    connection = await connect(dsn)
    try:
        partitions = await _prepare(connection, partitions)
        applied = [m.name for m in migrations if await _apply(connection, m, partitions)]
        known = max((m.number for m in migrations), default=0)
        newest = await connection.fetchval("SELECT max(number) FROM schema_migrations") or 0
        if newest > known:
            raise MigrationError(
                f"the database is at migration {newest}, this server knows {known}; run the newer server"
            )
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationError(
            f"PostgreSQL lets no schema be made ({error}); "
            "make the user of TELESRV_POSTGRES_DSN the owner of the database"
        ) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise MigrationError(f"PostgreSQL did not take the schema ({error})") from error
    finally:
        await connection.close()
    return Migrated(tuple(applied), partitions)


async def pending(dsn: str, directory: Path = DIRECTORY) -> list[str]:
    """Returns the names of the files that the database has not, in order; applies none.

    Raises:
        MigrationError: the server cannot be reached, or a file has a name that none can have.
    """
    migrations = load(directory)
    connection = await connect(dsn)
    try:
        rows = await connection.fetch("SELECT number FROM schema_migrations")
    except asyncpg.PostgresError as error:
        raise MigrationError(f"PostgreSQL does not tell which migrations it has ({error})") from error
    finally:
        await connection.close()
    applied = {row["number"] for row in rows}
    return [migration.name for migration in migrations if migration.number not in applied]


async def connect(dsn: str) -> asyncpg.Connection[asyncpg.Record]:
    """Returns a connection to the server of `dsn`.

    Raises:
        MigrationError: the server cannot be reached.
    """
    try:
        return await asyncpg.connect(dsn, timeout=_CONNECT_S)
    except (OSError, ValueError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise MigrationError(
            f"PostgreSQL cannot be used ({str(error) or type(error).__name__}); "
            "check TELESRV_POSTGRES_DSN, and that the server runs"
        ) from None


async def _prepare(connection: asyncpg.Connection[asyncpg.Record], wanted: int) -> int:
    """Makes sure of the two tables of this module; returns the partition count that this database has."""
    await connection.execute(_BOOTSTRAP)
    await connection.execute(
        "INSERT INTO schema_settings (name, value) VALUES ('partitions', $1) ON CONFLICT (name) DO NOTHING",
        str(wanted),
    )
    stored = int(await connection.fetchval("SELECT value FROM schema_settings WHERE name = 'partitions'"))
    if stored != wanted:
        log.warning(
            "the number of partitions stays what it was when the database was made",
            wanted=wanted,
            used=stored,
        )
    return stored


async def _apply(
    connection: asyncpg.Connection[asyncpg.Record], migration: Migration, partitions: int
) -> bool:
    """Applies one migration unless it was; holds the lock of `schema_migrations` for its transaction."""
    async with connection.transaction():
        await connection.execute("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")
        recorded = await connection.fetchval(
            "SELECT sha256 FROM schema_migrations WHERE number = $1", migration.number
        )
        if recorded is not None:
            if recorded != migration.sha256:
                raise MigrationError(
                    f"{migration.name}.sql was changed after it had been applied; "
                    "put it back and add a new file"
                )
            return False
        newest = await connection.fetchval("SELECT max(number) FROM schema_migrations") or 0
        if newest > migration.number:
            raise MigrationError(
                f"{migration.name}.sql comes after number {newest} was applied; give it a number above that"
            )
        try:
            await connection.execute(render(migration.text, partitions))
        except (asyncpg.PostgresError, MigrationError) as error:
            raise MigrationError(f"{migration.name}.sql: {error}") from error
        await connection.execute(
            "INSERT INTO schema_migrations (number, name, sha256) VALUES ($1, $2, $3)",
            migration.number,
            migration.name,
            migration.sha256,
        )
    return True
