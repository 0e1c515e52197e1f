"""What is done for a process that is certainly dead, so that nobody waits for it.

Without it the others would find out by themselves: within `ALIVE_S` that it does not answer, later that its
node number is free, and what it was pushing.
"""

from __future__ import annotations

import json
from typing import Final

from telesrv.clock import Clock
from telesrv.store.nodes import NodeStore, unix_ms
from telesrv.store.operations import CONTROL
from telesrv.store.outbox import release_leases
from telesrv.store.pool import Pool
from telesrv.store.redis import Redis
from telesrv.store.session_registry import SessionRegistry

_WAIT_S: Final = 1.0
"""For each of the stores: a successor is not started before, and would have to wait for them too."""


async def bury(postgres_dsn: str, redis_url: str, clock: Clock, node: int, holder: str) -> None:
    """Ends a dead process's entries and its leases, and has the others look who lives.

    What belongs to another holder of the number by now is left alone.

    Raises:
        Unavailable: a store is away; what could not be done ends by itself.
    """
    redis = await Redis.connect(redis_url, wait_s=_WAIT_S)
    try:
        if await SessionRegistry(redis, clock).leave(node, holder):
            message = json.dumps({"kind": "gone", "node": node})
            await redis.call(lambda: redis.client.publish(redis.key(CONTROL), message))
    finally:
        await redis.close()
    pool = await Pool.connect(postgres_dsn, min_conns=1, max_conns=1, wait_s=_WAIT_S)
    try:
        if await NodeStore(pool, clock).bury(node, holder):
            await release_leases(pool, unix_ms(clock), node)
    finally:
        await pool.close()
