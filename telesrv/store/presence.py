"""Who is online: in Redis while it lasts, in PostgreSQL when it ends.

Guarantees: `online_until` only moves forward until the account goes offline; a read of many accounts is one
MGET. Redis keeps the last word for a month; when it lost everything, last_seen_at of PostgreSQL is at most
five minutes behind.

That an account is active is noted seldom, and each process knows what it noted by itself. Who sets an account
offline has the others forget that (`forget`): those that hold sessions of it, as the rest have forgotten it.

*Spec: account.updateStatus; User status*
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.users import Presence
from telesrv.store.pool import Pool
from telesrv.store.redis import Redis

PERSIST_EVERY_S: Final = 300
ACTIVE_S: Final = 60
"""For so long an account is online at least after it did something that others see."""
ACTIVE_EVERY_S: Final = 30
"""How often that is noted: who sends all the time costs two calls and two pushes a minute."""
_ACTIVE_KEPT: Final = 100_000
KEEP_MS: Final = 30 * 86_400_000
LEFT_MS: Final = 600_000
"""As long as a process may hold a session whose client is away, and longer."""

# Moves last_seen_at of one account forward.
SQL_SEEN: Final = """
UPDATE users SET last_seen_at = $2 WHERE user_id = $1 AND last_seen_at < $2
"""

# Reads when some accounts were last seen.
SQL_LAST_SEEN: Final = """
SELECT user_id, last_seen_at FROM users WHERE user_id = ANY($1::bigint[])
"""


class PresenceStore:
    """Online times of accounts."""

    def __init__(self, pool: Pool, redis: Redis, clock: Clock) -> None:
        self._pool = pool
        self._redis = redis
        self._clock = clock
        self._active: OrderedDict[int, float] = OrderedDict()
        """Until when what accounts do is not noted again, by the monotonic clock."""

    async def active(self, user_id: int) -> bool:
        """Notes that the account did something that others see, so that it is online for a minute at least.

        Returns:
            Whether it is online for longer than was known.
        """
        monotonic = self._clock.monotonic()
        if self._active.get(user_id, 0.0) > monotonic:
            return False
        self._active[user_id] = monotonic + ACTIVE_EVERY_S
        self._active.move_to_end(user_id)
        while len(self._active) > _ACTIVE_KEPT:
            self._active.popitem(last=False)
        until = int(self._clock.time()) + ACTIVE_S
        known = (await self.known([user_id])).get(user_id)
        if known is not None and known.online_until >= until:
            return False
        await self.set_online(user_id, until)
        return True

    async def set_online(self, user_id: int, until: int) -> None:
        """Notes that the account is online until *until*, or longer if it said so before."""
        now = int(self._clock.time())
        due = await self._redis.script(
            "presence_online", [self._key(user_id)], [until, now, PERSIST_EVERY_S, KEEP_MS]
        )
        if due:
            await self._pool.execute(SQL_SEEN, user_id, now)

    async def set_offline(self, user_id: int, now: int) -> None:
        """Notes that the account went offline at *now*; the other processes are to `forget` it then."""
        self.forget([user_id])
        client, key = self._redis.client, self._redis.key(self._key(user_id))
        await self._redis.call(lambda: client.set(key, b"%d %d" % (now, now), px=KEEP_MS))
        await self._pool.execute(SQL_SEEN, user_id, now)

    def forget(self, user_ids: Iterable[int]) -> None:
        """Has what the accounts do next be noted."""
        for user_id in user_ids:
            self._active.pop(user_id, None)

    def forget_all(self) -> None:
        """Has what any account does next be noted."""
        self._active.clear()

    async def get(self, user_ids: Collection[int]) -> dict[int, Presence]:
        """Returns the presence of every account that exists; PostgreSQL knows what Redis lost."""
        found = await self.known(user_ids)
        missing = [user_id for user_id in dict.fromkeys(user_ids) if user_id not in found]
        if missing:
            for row in await self._pool.fetch(SQL_LAST_SEEN, missing):
                found[row["user_id"]] = Presence(last_seen_at=row["last_seen_at"])
        return found

    async def known(self, user_ids: Collection[int]) -> dict[int, Presence]:
        """Returns the presence of those accounts that Redis knows of."""
        ids = list(dict.fromkeys(user_ids))
        if not ids:
            return {}
        values = await self._redis.mget([self._key(user_id) for user_id in ids])
        now = int(self._clock.time())
        return {
            user_id: _presence(value, now)
            for user_id, value in zip(ids, values, strict=True)
            if value is not None
        }

    async def left(self, user_id: int, node: int) -> set[int]:
        """Notes that the account has no open link to *node* any more; returns all nodes that noted so."""
        client, key = self._redis.client, self._redis.key(f"left:{{{user_id}}}")

        async def action() -> list[Any]:
            pipeline = client.pipeline(transaction=True)
            pipeline.sadd(key, node)
            pipeline.pexpire(key, LEFT_MS)
            pipeline.smembers(key)
            answer: list[Any] = await pipeline.execute()
            return answer

        return {int(member) for member in (await self._redis.call(action))[-1]}

    async def back(self, user_id: int, node: int) -> None:
        """Takes back what `left` noted."""
        client, key = self._redis.client, self._redis.key(f"left:{{{user_id}}}")
        await self._redis.call(lambda: client.srem(key, node))

    @staticmethod
    def _key(user_id: int) -> str:
        return f"presence:{{{user_id}}}"


def _presence(value: bytes, now: int) -> Presence:
    until = int(value.split()[0])
    return Presence(online_until=until) if until > now else Presence(last_seen_at=until)
