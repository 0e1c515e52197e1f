"""Secrets of the server as a whole, kept in PostgreSQL.

PostgreSQL and not a file: all processes on all machines must have the same, and what they share is
PostgreSQL. Whoever can read it there can read every auth key and message as well, so a file would protect
nothing more.

*Spec: Creating an Authorization Key*
"""

from __future__ import annotations

import secrets
from typing import Final

from telesrv.store.pool import Pool

SECRET_BYTES: Final = 32
_NAME: Final = "server"

# Makes a secret unless there is one.
SQL_MAKE: Final = """
INSERT INTO server_secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING
"""
# Reads a secret.
SQL_READ: Final = """
SELECT value FROM server_secrets WHERE name = $1
"""


async def server_secret(pool: Pool) -> bytes:
    """Returns the secret, 32 bytes: made by the first process that asks, the same for ever.

    Raises:
        Unavailable: PostgreSQL is away.
    """
    value: bytes | None = await pool.fetchval(SQL_READ, _NAME)
    if value is None:
        await pool.execute(SQL_MAKE, _NAME, secrets.token_bytes(SECRET_BYTES))
        value = await pool.fetchval(SQL_READ, _NAME)
    if value is None or len(value) != SECRET_BYTES:
        raise RuntimeError("the server secret is damaged")
    return value
