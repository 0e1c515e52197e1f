"""How many connections to PostgreSQL there are, and how the workers share them."""

from __future__ import annotations

import os
from typing import Final

from telesrv.platform.migrate import connect

SPARE_CONNECTIONS: Final = 10
"""Left for operators, health checks and migrations."""
FEWEST_CONNECTIONS: Final = 2
"""What a worker cannot do with less of."""


async def connection_limit(dsn: str) -> int:
    """How many connections ordinary users may have to the server of `dsn` at a time.

    Raises:
        MigrationError: the server cannot be reached.
    """
    connection = await connect(dsn)
    try:
        return int(
            await connection.fetchval(
                "SELECT current_setting('max_connections')::int"
                " - current_setting('superuser_reserved_connections')::int"
            )
        )
    finally:
        await connection.close()


def at_once_each(workers: int) -> int:
    """How many connections of each worker should work at once, when the server shares the machine's cores.

    Four for each core keep them busy also while some wait for the disk.
    """
    return max(4, 4 * (os.cpu_count() or 1) // workers)


def connections_each(limit: int, workers: int) -> int:
    """How many of `limit` connections each worker may open; too few to serve when below
    `FEWEST_CONNECTIONS`."""
    return (limit - SPARE_CONNECTIONS) // workers
