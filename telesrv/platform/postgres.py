"""The embedded PostgreSQL: a cluster made once, a postmaster on a Unix socket, a database for the server."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import quote

import asyncpg

from telesrv.platform.account import Account
from telesrv.platform.binaries import PostgresPrograms
from telesrv.platform.errors import PlatformError
from telesrv.platform.process import BASE_ENVIRONMENT, LAUNCHER, Child

USER: Final = "telesrv"
DATABASE: Final = "telesrv"
PORT: Final = 5432
"""Only part of the socket's name: no TCP port is opened."""

SETTINGS: Final = {
    "autovacuum_naptime": "15s",
    "checkpoint_timeout": "15min",
    "effective_cache_size": "1GB",
    "jit": "off",
    "listen_addresses": "",
    "log_timezone": "UTC",
    "max_connections": "200",
    "max_locks_per_transaction": "256",
    "max_parallel_workers_per_gather": "0",
    "max_wal_size": "2GB",
    "password_encryption": "scram-sha-256",
    "random_page_cost": "1.1",
    "shared_buffers": "256MB",
    "timezone": "UTC",
    "unix_socket_permissions": "0700",
    "wal_compression": "on",
}

UNSAFE_FAST: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "128MB",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
"""For test clusters that nobody wants back after a crash."""


class Postgres(Child):
    """A postmaster on `directory`, reachable over a socket in `socket_directory` with `password`."""

    name = "postgres"
    stop_signal = signal.SIGINT

    def __init__(
        self,
        directory: Path,
        log_file: Path,
        account: Account,
        *,
        programs: PostgresPrograms,
        socket_directory: Path,
        password: str,
        settings: dict[str, str],
    ) -> None:
        super().__init__(directory, log_file, account)
        self.programs = programs
        self.socket_directory = socket_directory
        self.password = password
        self.settings = {**SETTINGS, **settings}

    def command(self) -> list[str]:
        settings = {
            **self.settings,
            "unix_socket_directories": f'"{self.socket_directory}"',
            "port": str(PORT),
        }
        options = [part for name, value in sorted(settings.items()) for part in ("-c", f"{name}={value}")]
        return [str(self.programs.postgres), "-D", str(self.directory), *options]

    def before_start(self) -> None:
        """Drops the lock files a killed postmaster left: its process id may be another program's by now."""
        (self.directory / "postmaster.pid").unlink(missing_ok=True)
        for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
            (self.socket_directory / name).unlink(missing_ok=True)

    def dsn(self, database: str = DATABASE) -> str:
        """A URL that asyncpg and libpq connect by."""
        host = quote(str(self.socket_directory), safe="/")
        return f"postgresql://{USER}:{self.password}@/{quote(database)}?host={host}&port={PORT}"

    async def answers(self) -> bool:
        try:
            connection = await asyncpg.connect(self.dsn("postgres"), timeout=10)
        except (OSError, asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError, TimeoutError):
            return False
        except asyncpg.InvalidPasswordError:
            raise PlatformError(
                f"the cluster in {self.directory} has another password than the one stored for it; restore "
                "embedded.json in the data directory from a backup"
            ) from None
        await connection.close()
        return True

    async def make_cluster(self) -> None:
        """Makes sure of a cluster in `directory`: whole, or, when this is interrupted, not at all.

        Raises:
            PlatformError: initdb failed; the text has its output.
        """
        if (self.directory / "PG_VERSION").exists():
            return
        staging = self.directory.with_name(self.directory.name + ".new")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
        self.account.give(staging)
        descriptor, password_file = tempfile.mkstemp(prefix=".initdb-", dir=self.directory.parent)
        try:
            os.write(descriptor, self.password.encode("ascii"))
            os.close(descriptor)
            self.account.give(Path(password_file))
            await self._initdb(staging, password_file)
        finally:
            os.unlink(password_file)
        staging.rename(self.directory)

    async def _initdb(self, directory: Path, password_file: str) -> None:
        uid, gid = (self.account.uid, self.account.gid) if self.account.drop else (-1, -1)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(LAUNCHER)),
            *(str(os.getpid()), str(int(signal.SIGTERM)), str(uid), str(gid)),
            *(str(self.programs.initdb), "-D", str(directory), "-U", USER, f"--pwfile={password_file}"),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *("--locale=C.UTF-8", "--no-instructions"),
            *([] if self.settings.get("fsync") != "off" else ["--no-sync"]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
            env=BASE_ENVIRONMENT,
            start_new_session=True,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            shutil.rmtree(directory, ignore_errors=True)
            raise PlatformError(f"initdb failed:\n{output.decode('utf-8', 'replace').strip()}")

    async def make_database(self) -> None:
        """Makes sure of the server's own database; the postmaster must be up."""
        connection = await asyncpg.connect(self.dsn("postgres"))
        try:
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
                await connection.execute(f'CREATE DATABASE "{DATABASE}"')
        finally:
            await connection.close()
