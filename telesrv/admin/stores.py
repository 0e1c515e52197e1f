"""The way of the commands to the running servers, and what to tell when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from telesrv.admin.output import fail

if TYPE_CHECKING:
    from telesrv.config import Settings
    from telesrv.domain.errors import Unavailable
    from telesrv.store import Store

ResultT = TypeVar("ResultT")

WAIT_S: Final = 3.0
"""How long a command waits for a server."""


def settings_or_fail() -> Settings:
    """Returns the settings; ends the command when one cannot be used."""
    from telesrv.config import ConfigError, load_settings  # noqa: PLC0415

    try:
        return load_settings()
    except ConfigError as error:
        fail(str(error))


def public_key_path(settings: Settings) -> Path:
    """Returns where the server has put its public key; ends the command when it never did."""
    path = settings.public_key_path
    if not path.exists():
        fail(
            f"{path.absolute()} is not there: start the server once (make run), "
            "or point TELESRV_DATA_DIR at its data"
        )
    return path


def with_store(work: Callable[[Store], Awaitable[ResultT]]) -> ResultT:
    """Returns what *work* makes of the store of the running servers.

    Ends the command with exit code 2 and a line on what to do when a server does not answer.
    """
    import asyncpg  # noqa: PLC0415

    from telesrv.clock import SystemClock  # noqa: PLC0415
    from telesrv.domain.errors import Unavailable  # noqa: PLC0415
    from telesrv.platform import discover  # noqa: PLC0415
    from telesrv.store import Store, StoreConfig  # noqa: PLC0415

    settings = settings_or_fail()
    dsn, url = settings.postgres_dsn, settings.redis_url
    try:
        found = discover(settings.data_dir)
    except OSError as error:
        fail(f"{settings.data_dir} cannot be read ({error.strerror}): run this as the user of the server")
    postgres_dsn = dsn.get_secret_value() if dsn else found.postgres_dsn if found else ""
    redis_url = url.get_secret_value() if url else found.redis_url if found else ""
    if not postgres_dsn or not redis_url:
        fail(
            f"no server is running on {settings.data_dir.absolute()}: start it (make run), "
            "or set TELESRV_DATA_DIR, or TELESRV_POSTGRES_DSN and TELESRV_REDIS_URL"
        )
    config = StoreConfig(
        postgres_dsn=postgres_dsn,
        redis_url=redis_url,
        clock=SystemClock(),
        min_conns=1,
        max_conns=2,
        wait_s=WAIT_S,
    )

    async def run() -> ResultT:
        store = await Store.open(config)
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except Unavailable as error:
        fail(_away(error, settings))
    except asyncpg.UndefinedTableError:
        fail("the database has not the tables of this version: start the server once, or run make migrate")
    except (
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.InsufficientPrivilegeError,
    ) as error:
        fail(f"PostgreSQL refuses ({error}); check TELESRV_POSTGRES_DSN")
    except OSError as error:
        fail(f"the stores do not answer ({error}); is the server running?")


def _away(error: Unavailable, settings: Settings) -> str:
    """Returns what does not answer, why as far as is known, and what to do."""
    server = str(error)
    setting, given, log_name = (
        ("TELESRV_REDIS_URL", settings.redis_url, "valkey.log")
        if server == "Redis"
        else ("TELESRV_POSTGRES_DSN", settings.postgres_dsn, "postgres.log")
    )
    why = f" ({error.__cause__})" if error.__cause__ is not None and str(error.__cause__) else ""
    if given is not None:
        return f"{server} does not answer{why}: check that it runs and that {setting} is right"
    log = settings.data_dir / "log" / log_name
    return f"{server} does not answer{why}: is the server still running? Its log is {log}"
