"""`telesrv-admin check-config`: would a server start with these settings, and would it serve well?

Every check looks only: nothing is made, nothing is written but one key in Redis that goes away by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import resource
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from telesrv.admin.output import Json, print_json, print_table

if TYPE_CHECKING:
    from telesrv.config import Address, Settings
    from telesrv.platform import Endpoints

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

LEAST_POSTGRES: Final = 150_000
LEAST_REDIS: Final = (6, 2)
LEAST_FILES: Final = 4096
"""Open files: a connection takes one."""
WAIT_S: Final = 3.0
_PRIVATE_MODE: Final = 0o077


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    what: str
    state: str
    text: str


def check(as_json: Json = False) -> None:
    """Check the settings and what they name: servers, versions, ports, keys. Changes nothing.

    Exit code 0: a server can start; 1: it cannot, the lines marked "problem" say why.

    \b
    Examples:
      telesrv-admin check-config
      TELESRV_POSTGRES_DSN=postgresql://... telesrv-admin check-config --json
    """
    findings = list(_findings())
    bad = any(finding.state == PROBLEM for finding in findings)
    if as_json:
        print_json({"ok": not bad, "findings": [asdict(finding) for finding in findings]})
    else:
        print_table(
            ("", "what", "found"), [(finding.state, finding.what, finding.text) for finding in findings]
        )
        typer.echo("A server cannot start with this." if bad else "A server can start with this.")
    raise typer.Exit(1 if bad else 0)


def _findings() -> Iterator[Finding]:
    from telesrv.config import ConfigError, load_settings, unknown_settings  # noqa: PLC0415
    from telesrv.platform import discover  # noqa: PLC0415
    from telesrv.platform.lock import is_locked  # noqa: PLC0415

    for name in unknown_settings():
        yield Finding("settings", WARNING, f"{name} is no setting and does nothing")
    try:
        settings = load_settings()
    except ConfigError as error:
        for line in str(error).splitlines():
            yield Finding("settings", PROBLEM, line)
        return
    yield Finding("settings", OK, "every value can be used")
    running, found = False, None
    with contextlib.suppress(OSError):
        running = is_locked(settings.data_dir)
        found = discover(settings.data_dir)
    yield from _data_dir(settings, running)
    yield from _key(settings)
    yield from asyncio.run(_postgres(settings, found))
    yield asyncio.run(_redis(settings, found))
    yield _port("clients", settings.listen, running)
    if settings.metrics_listen is not None:
        yield _port("metrics", settings.metrics_listen, running)
    yield from _exposure(settings)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files != resource.RLIM_INFINITY and files < LEAST_FILES:
        yield Finding("open files", WARNING, f"at most {files}: raise `ulimit -n` for many clients")


def _data_dir(settings: Settings, running: bool) -> Iterator[Finding]:
    path = settings.data_dir.absolute()
    if running:
        yield Finding("data directory", OK, f"{path}: a server is running on it")
    elif path.exists():
        usable = path.is_dir() and os.access(path, os.W_OK | os.X_OK)
        yield (
            Finding("data directory", OK, str(path))
            if usable
            else Finding("data directory", PROBLEM, f"{path} is not a directory that can be written")
        )
    else:
        parent = next(parent for parent in path.parents if parent.exists())
        usable = parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)
        yield (
            Finding("data directory", OK, f"{path} is made at the first start")
            if usable
            else Finding("data directory", PROBLEM, f"{path} cannot be made: {parent} is not writable")
        )


def _key(settings: Settings) -> Iterator[Finding]:
    from telesrv.mtproto.rsa import load_private_pem  # noqa: PLC0415

    path = settings.rsa_key_path
    try:
        key = load_private_pem(path)
    except FileNotFoundError:
        yield Finding("RSA key", NOTE, f"{path} is made at the first start; clients must then know it")
        return
    except OSError as error:
        yield Finding("RSA key", PROBLEM, f"{path} cannot be read ({error.strerror})")
        return
    except (ValueError, TypeError) as error:
        yield Finding("RSA key", PROBLEM, f"{path}: {error}")
        return
    yield Finding("RSA key", OK, f"{path}, fingerprint {key.fingerprint & 0xFFFF_FFFF_FFFF_FFFF:016x}")
    if path.stat().st_mode & _PRIVATE_MODE:
        yield Finding("RSA key", WARNING, f"others may read {path}: chmod 600 {path}")


async def _postgres(settings: Settings, found: Endpoints | None) -> list[Finding]:
    import asyncpg  # noqa: PLC0415

    given = settings.postgres_dsn
    if given is None and found is None:
        return [Finding("PostgreSQL", OK, "the embedded one, which starts with the server")]
    dsn = given.get_secret_value() if given is not None else found.postgres_dsn if found else ""
    try:
        async with asyncio.timeout(WAIT_S):
            connection = await asyncpg.connect(dsn, timeout=WAIT_S)
            try:
                return [
                    await _look_into_postgres(connection, settings),
                    *await _look_into_tables(connection, settings),
                ]
            finally:
                connection.terminate()
    except TimeoutError:
        problem = f"does not answer within {WAIT_S:g} s"
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        problem = f"{_reason(error)}; check TELESRV_POSTGRES_DSN"
    return [Finding("PostgreSQL", PROBLEM, problem)]


async def _look_into_tables(connection: Any, settings: Settings) -> list[Finding]:
    """What was fixed when the tables were made, where the settings say something else."""
    if not await connection.fetchval("SELECT to_regclass('schema_settings') IS NOT NULL"):
        return []
    made = await connection.fetchval("SELECT value FROM schema_settings WHERE name = 'partitions'")
    if made is None or int(made) == settings.partitions:
        return []
    text = f"TELESRV_PARTITIONS={settings.partitions} does nothing: the tables were made with {made}"
    return [Finding("partitions", WARNING, text)]


async def _look_into_postgres(connection: Any, settings: Settings) -> Finding:
    from telesrv.platform import connections_each  # noqa: PLC0415
    from telesrv.platform.connections import FEWEST_CONNECTIONS  # noqa: PLC0415

    async def value(name: str) -> str:
        return str(await connection.fetchval("SELECT current_setting($1)", name))

    version = await value("server_version")
    if int(await value("server_version_num")) < LEAST_POSTGRES:
        return Finding("PostgreSQL", PROBLEM, f"version {version} is too old: 15 or later is needed")
    if await value("server_encoding") != "UTF8":
        return Finding("PostgreSQL", PROBLEM, "the database is not in UTF8: make it with ENCODING 'UTF8'")
    if await connection.fetchval("SELECT pg_is_in_recovery()"):
        return Finding("PostgreSQL", PROBLEM, "it is a standby and takes no writes: name the primary")
    made = await connection.fetchval("SELECT to_regclass('schema_migrations') IS NOT NULL")
    may = await connection.fetchval("SELECT has_schema_privilege(current_schema(), 'CREATE')")
    if not made and not may:
        return Finding("PostgreSQL", PROBLEM, "this user may not make tables in the database: GRANT CREATE")
    most = int(await value("max_connections")) - int(await value("superuser_reserved_connections"))
    schema = "with tables" if made else "empty; tables are made at the first start"
    each = connections_each(most, settings.workers)
    if each < FEWEST_CONNECTIONS:
        return Finding(
            "PostgreSQL",
            PROBLEM,
            f"its {most} connections are too few for TELESRV_WORKERS={settings.workers}: "
            "raise its max_connections, or start fewer workers",
        )
    if each < settings.postgres_max_conns:
        return Finding(
            "PostgreSQL",
            WARNING,
            f"version {version}, {schema}; it allows {most} connections, so that each of "
            f"{settings.workers} workers opens {each}, not {settings.postgres_max_conns} "
            "(TELESRV_POSTGRES_MAX_CONNS)",
        )
    return Finding("PostgreSQL", OK, f"version {version}, {schema}")


async def _redis(settings: Settings, found: Endpoints | None) -> Finding:
    from redis import asyncio as aioredis  # noqa: PLC0415
    from redis.asyncio.retry import Retry  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.exceptions import RedisError  # noqa: PLC0415

    given = settings.redis_url
    if given is None and found is None:
        return Finding("Redis", OK, "the embedded Valkey, which starts with the server")
    url = given.get_secret_value() if given is not None else found.redis_url if found else ""
    try:
        client = aioredis.Redis.from_url(
            url, socket_timeout=None, socket_connect_timeout=WAIT_S, retry=Retry(NoBackoff(), 0)
        )
        try:
            async with asyncio.timeout(WAIT_S):
                await client.set("telesrv:health", b"1", px=60_000)
                return _look_into_redis(await client.info())
        finally:
            await client.aclose()
    except TimeoutError:
        problem = f"does not answer within {WAIT_S:g} s"
    except (OSError, RedisError, ValueError) as error:
        problem = f"{_reason(error)}; check TELESRV_REDIS_URL"
    return Finding("Redis", PROBLEM, problem)


def _look_into_redis(info: dict[str, Any]) -> Finding:
    valkey = info.get("valkey_version")
    version = str(valkey or info.get("redis_version", "?"))
    name = f"Valkey {version}" if valkey else f"Redis {version}"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < LEAST_REDIS:
        return Finding("Redis", PROBLEM, f"{name} is too old: 6.2 or later is needed")
    if info.get("maxmemory_policy", "noeviction") != "noeviction":
        return Finding(
            "Redis", WARNING, f"{name}; it may throw keys away (maxmemory-policy): set it to noeviction"
        )
    if not info.get("aof_enabled"):
        return Finding("Redis", NOTE, f"{name}; appendonly is off: after a crash counters are made anew")
    return Finding("Redis", OK, name)


def _port(what: str, address: Address, running: bool) -> Finding:
    """Tells whether the address can be listened on; a running server is asked nothing."""
    where = f"port for {what}"
    try:
        infos = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, target in infos:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
    except OSError as error:
        if running and address.port:
            return Finding(where, OK, f"{address} is in use, as by the running server")
        return Finding(where, PROBLEM, f"{address} cannot be listened on ({error.strerror or error})")
    return Finding(where, OK, f"{address} is free")


def _exposure(settings: Settings) -> Iterator[Finding]:
    """What is unwise where others can connect."""
    host = settings.listen.host
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified and settings.advertise_ip is None:
            yield Finding(
                "address",
                WARNING,
                "clients are told to connect to this machine's loopback: set TELESRV_ADVERTISE_IP",
            )
        if not address.is_loopback and settings.dev_auth_code is not None:
            yield Finding(
                "login codes", WARNING, "TELESRV_DEV_AUTH_CODE logs in to every account from everywhere"
            )
    if settings.dev_auth_code is None and settings.code_webhook is None:
        yield Finding("login codes", NOTE, "they go to the log: set TELESRV_CODE_WEBHOOK to send them")
    metrics = settings.metrics_listen
    if metrics is not None:
        with contextlib.suppress(ValueError):
            if not ipaddress.ip_address(metrics.host).is_loopback:
                yield Finding("metrics", NOTE, f"{metrics} shows figures to whoever can connect: firewall it")


def _reason(error: Exception) -> str:
    """Returns an error without anything of the DSN that may be secret."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be reached ({error.strerror})"
    kind = type(error).__name__
    known = {
        "InvalidPasswordError": "refuses the password",
        "InvalidAuthorizationSpecificationError": "refuses the login",
        "InvalidCatalogNameError": "has no such database: make it (CREATE DATABASE ... ENCODING 'UTF8')",
        "AuthenticationError": "refuses the password",
        "ReadOnlyError": "is a replica and takes no writes: name the primary",
        "ConnectionError": "cannot be reached",
        "ConnectionRefusedError": "cannot be reached",
    }
    return known.get(kind, f"cannot be used ({kind})")
