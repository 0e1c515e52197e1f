"""PostgreSQL and Valkey as part of the server: started and stopped with it, their data in one directory.

What lies where:

    DATA_DIR/lock            held by the running server
    DATA_DIR/embedded.json   0600: the servers' password and where their data is
    DATA_DIR/endpoints.json  0600: how to reach them, true while the lock is held
    DATA_DIR/log/            what they print
    BASE/postgres, BASE/valkey, BASE/run (the sockets)

BASE is DATA_DIR, or a directory of its own under /var/lib/telesrv when root's data directory is out of reach
of the unprivileged account that PostgreSQL insists on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import structlog

from telesrv.platform import account as accounts
from telesrv.platform import binaries
from telesrv.platform.account import Account
from telesrv.platform.errors import PlatformError
from telesrv.platform.lock import DataDirLock, is_locked
from telesrv.platform.postgres import Postgres
from telesrv.platform.process import GRACE_S, Child
from telesrv.platform.valkey import Valkey

log = structlog.get_logger("telesrv.platform")

STATE_NAME: Final = "embedded.json"
ENDPOINTS_NAME: Final = "endpoints.json"
SOCKET_PATH_LIMIT: Final = 100
"""Bytes that a Unix socket's path may have everywhere, the kernel's 108 less a margin."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the two servers are reached; the URLs hold a password, hence no `repr`."""

    postgres_dsn: str
    redis_url: str

    def __repr__(self) -> str:
        return "Endpoints(...)"


class EmbeddedServers:
    """PostgreSQL and Valkey for one data directory, both or the one that is asked for.

    Guarantees: `start` returns when both answer; whatever was committed before the last end of this or an
    earlier process, kill -9 included, is there; while started, a server that dies comes back. At most one
    `EmbeddedServers` holds a data directory at a time.

    Concurrency: one event loop. Lifecycle: `start` and `stop`, in this order, once each.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        postgres: bool = True,
        redis: bool = True,
        postgres_settings: dict[str, str] | None = None,
        redis_settings: dict[str, str] | None = None,
    ) -> None:
        """Nothing happens yet.

        Args:
            data_dir: made when it does not exist.
            postgres, redis: whether to run this one; an endpoint of one that is not run is "".
            postgres_settings, redis_settings: configuration that replaces or completes the built-in one.
        """
        self.data_dir = data_dir.absolute()
        self._run_postgres = postgres
        self._run_redis = redis
        self._postgres_settings = postgres_settings or {}
        self._redis_settings = redis_settings or {}
        self._children: list[Child] = []
        self._locks: list[DataDirLock] = []
        self._temporary: Path | None = None

    @property
    def children(self) -> tuple[Child, ...]:
        """The supervised processes."""
        return tuple(self._children)

    async def start(self) -> Endpoints:
        """Takes the data directory, starts the servers and returns where they are.

        Raises:
            DataDirInUse: another server has the data directory.
            PlatformError: a server cannot be started here.
        """
        try:
            return await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Ends the servers and gives the data directory back; a second call does nothing.

        Args:
            grace_s: after how long a server is killed; it loses nothing, and takes longer to start again.
        """
        await asyncio.gather(*(child.stop(grace_s) for child in self._children))
        self._children = []
        if self._locks:
            (self.data_dir / ENDPOINTS_NAME).unlink(missing_ok=True)
        for lock in self._locks:
            lock.release()
        self._locks = []
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    async def _start(self) -> Endpoints:
        make_data_dir(self.data_dir)
        self._lock(self.data_dir)
        account = accounts.choose(self._existing_data())
        state = self._state(account)
        base = self.data_dir / state.base
        _make_directory(base, 0o711, None)
        if base != self.data_dir:
            self._lock(base)
        sockets = self._socket_directory(base, account)
        postgres = redis = None
        if self._run_postgres:
            postgres = Postgres(
                base / "postgres",
                self.data_dir / "log/postgres.log",
                account,
                programs=binaries.postgres_programs(account),
                socket_directory=sockets,
                password=state.password,
                settings=self._postgres_settings,
            )
            self._children.append(postgres)
        if self._run_redis:
            _make_directory(base / "valkey", 0o700, account)
            redis = Valkey(
                base / "valkey",
                self.data_dir / "log/valkey.log",
                account,
                program=binaries.valkey_program(account),
                socket=sockets / "valkey.sock",
                password=state.password,
                settings=self._redis_settings,
            )
            self._children.append(redis)
        if postgres is not None:
            await postgres.make_cluster()
        for child in self._children:
            await child.start()
        if postgres is not None:
            await postgres.make_database()
        endpoints = Endpoints(postgres.dsn() if postgres else "", redis.url() if redis else "")
        _write_private(self.data_dir / ENDPOINTS_NAME, json.dumps(asdict(endpoints)))
        return endpoints

    def _lock(self, directory: Path) -> None:
        lock = DataDirLock(directory)
        lock.acquire()
        self._locks.append(lock)

    def _existing_data(self) -> Path | None:
        state = _read_state(self.data_dir)
        return None if state is None else self.data_dir / state.base / "postgres"

    def _state(self, account: Account) -> _State:
        """The stored state, or on the first start a new one, stored before anything is made by it."""
        state = _read_state(self.data_dir)
        if state is None:
            base = "."
            if not account.can_walk_to(self.data_dir):
                base = str(binaries.SYSTEM_ROOT / secrets.token_hex(6))
                log.warning(
                    "the databases are kept elsewhere",
                    reason=f"{self.data_dir} is only for root",
                    databases=base,
                )
                _make_directory(binaries.SYSTEM_ROOT, 0o755, None)
            state = _State(password=secrets.token_urlsafe(24), base=base)
            _write_private(self.data_dir / STATE_NAME, json.dumps(asdict(state)))
        elif not account.can_walk_to(self.data_dir / state.base):
            raise PlatformError(
                f"the account that runs PostgreSQL cannot reach {(self.data_dir / state.base).resolve()}; "
                "let others pass its parent directories (chmod o+x), or start the server as an ordinary user"
            )
        return state

    def _socket_directory(self, base: Path, account: Account) -> Path:
        """A place for the sockets that only the account can use, with a path that is short enough."""
        sockets = base / "run"
        if len(os.fsencode(sockets)) + len("/.s.PGSQL.5432.lock") > SOCKET_PATH_LIMIT or '"' in str(sockets):
            self._temporary = Path(tempfile.mkdtemp(prefix="telesrv-", dir="/tmp"))
            account.give(self._temporary)
            return self._temporary
        _make_directory(sockets, 0o700, account)
        return sockets


def discover(data_dir: Path) -> Endpoints | None:
    """Where the servers of `data_dir` are reached, or None when no server runs there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        text = (data_dir / ENDPOINTS_NAME).read_text(encoding="utf-8")
        if is_locked(data_dir):
            return Endpoints(**json.loads(text))
    return None


def make_data_dir(data_dir: Path) -> None:
    """Makes sure of the data directory: a new one is private, except that others may pass through root's.

    Raises:
        PlatformError: it cannot be made or written.
    """
    try:
        _make_directory(data_dir, 0o711 if os.geteuid() == 0 else 0o700, None)
    except OSError as error:
        raise PlatformError(
            f"{data_dir} cannot be used as the data directory ({error.strerror}); "
            "choose another with TELESRV_DATA_DIR"
        ) from None
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise PlatformError(f"{data_dir} is not writable; choose another with TELESRV_DATA_DIR")


@dataclass(frozen=True, slots=True)
class _State:
    password: str
    base: str
    """Relative to the data directory, so that the directory can be moved, or absolute."""


def _read_state(data_dir: Path) -> _State | None:
    try:
        return _State(**json.loads((data_dir / STATE_NAME).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise PlatformError(
            f"{data_dir / STATE_NAME} is damaged; "
            "restore it from a backup, or move the directory away to start anew"
        ) from None


def _write_private(path: Path, text: str) -> None:
    """Replaces `path` by `text`, readable by this user only; after a crash it is the old or the new file."""
    staging = path.with_name(f".{path.name}.new")
    staging.unlink(missing_ok=True)
    descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(descriptor)
    staging.replace(path)


def _make_directory(path: Path, mode: int, account: Account | None) -> None:
    """Makes sure of the directory; a new one gets `mode`, whatever the umask, and `account` as its owner."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        path.chmod(mode)
    if account is not None:
        account.give(path)
