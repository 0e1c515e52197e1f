"""`python -m telesrv.platform`: bring the schema up to date, in the configured PostgreSQL or the embedded."""

from __future__ import annotations

import asyncio
import sys

from telesrv.config import ConfigError, load_settings
from telesrv.platform import EmbeddedServers, PlatformError, discover, migrate


async def main() -> None:
    """Migrates and prints what was applied; the embedded PostgreSQL is started for it unless it runs."""
    settings = load_settings()
    running = discover(settings.data_dir)
    if settings.postgres_dsn is not None:
        result = await migrate(settings.postgres_dsn.get_secret_value(), settings.partitions)
    elif running is not None:
        result = await migrate(running.postgres_dsn, settings.partitions)
    else:
        servers = EmbeddedServers(settings.data_dir, redis=False)
        endpoints = await servers.start()
        try:
            result = await migrate(endpoints.postgres_dsn, settings.partitions)
        finally:
            await servers.stop()
    print("\n".join(f"applied {name}" for name in result.applied) or "nothing to apply")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (PlatformError, ConfigError) as problem:
        sys.exit(str(problem))
