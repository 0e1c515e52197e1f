"""Rate limits, counted in Redis so that all processes share them.

*Spec: Error handling (FLOOD_WAIT)*
"""

from __future__ import annotations

import math

from telesrv.clock import Clock
from telesrv.domain.errors import FloodWait
from telesrv.store.metrics import NO_METRICS, StoreMetrics
from telesrv.store.redis import Redis


class LimitStore:
    """Fixed windows that begin with their first request."""

    def __init__(self, redis: Redis, clock: Clock, metrics: StoreMetrics = NO_METRICS) -> None:
        self._redis = redis
        self._metrics = metrics
        self._clock = clock

    async def hit(self, kind: str, key: int | str, limit: int, period_s: float, *, cost: int = 1) -> None:
        """Counts a request, or refuses it without counting: at most *limit* pass in one window.

        Args:
            kind: what is limited, as in ``messages:send``; the Redis key is ``ratelimit:{kind}:{key}``.
            key: whom the limit is for.
            limit: requests a window; 0 for no limit.
            period_s: length of the window in seconds.
            cost: how many requests this one counts for.
        Raises:
            FloodWait: the window is full.
            Unavailable: Redis did not answer.
        """
        if limit <= 0:
            return
        wait_ms = await self._redis.script(
            "rate_limit",
            [f"ratelimit:{kind}:{key}"],
            [math.floor(self._clock.time() * 1000), math.ceil(period_s * 1000), limit, cost],
        )
        if wait_ms > 0:
            self._metrics.rate_limited(kind)
            raise FloodWait(math.ceil(wait_ms / 1000))
