"""How many connections to PostgreSQL there are, and how the workers share them."""

from __future__ import annotations

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


def connections_each(limit: int, workers: int) -> int:
    """How many of `limit` connections each worker may open; too few to serve when below
    `FEWEST_CONNECTIONS`."""
    return (limit - SPARE_CONNECTIONS) // workers
