"""Who is where: which nodes live, which node owns a session, which nodes hold sessions of an account. In
Redis.

Guarantees: all of it can be lost: a node that finds its own sign of life gone or another's (`Beat.LOST`)
enters everything again, and its clients are told to ask for the difference. What must survive a process,
the highest msg_id a session has executed, is written before the execution (`mark`) and outlives every
replay window.

    node:{node}                        holder of the lease; lasts `ALIVE_S`
    nodes                              sorted set of nodes by when they expire
    user:{user_id}:nodes               sorted set of nodes by when they expire
    session:{auth_key_id}:{session_id} "node mark"
    state:{auth_key_id}:{session_id}   an exported session, until its next owner takes it
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.store.redis import Redis

ALIVE_S: Final = 5
"""A node that was not heard of for this long counts as dead."""
BEAT_S: Final = 1.0
"""How often a node shows that it lives."""
USER_S: Final = 300
"""How long a node counts as holding sessions of an account, unless it says so again."""
SESSION_S: Final = 900
"""How long a session's owner and mark are kept: longer than a msg_id may be old, or a session be detached."""
STATE_S: Final = 120
"""How long an exported session waits for its next owner."""
_CHUNK: Final = 500
_AT_ONCE: Final = 32
"""States left at a time: they may be large."""


class Beat(Enum):
    """What a node finds of itself when it shows that it lives."""

    KEPT = "as it was left"
    LOST = "gone or another's: Redis has lost data"


@dataclass(frozen=True, slots=True)
class Claim:
    """What was known of a session when a node claimed it."""

    owner: int | None
    """The node that owned it before, if any."""
    mark: int
    """msg_ids up to this one may have been executed; 0: none known."""
    state: bytes | None = None
    """The session as a former owner left it; it is given out once."""


class SessionRegistry:
    """The entries of one node, and look-ups of all."""

    def __init__(self, redis: Redis, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock
        self._beaten = False

    # Nodes

    async def beat(self, node: int, holder: str) -> tuple[Beat, set[int]]:
        """Shows that the node lives; returns what it found of itself and the other nodes that live."""
        now = self._clock.time()
        key = self._redis.key

        async def action() -> list[Any]:
            pipeline = self._redis.client.pipeline(transaction=True)
            pipeline.set(key("node", node), holder, ex=ALIVE_S, get=True)
            pipeline.zadd(key("nodes"), {str(node): now + ALIVE_S})
            pipeline.zremrangebyscore(key("nodes"), "-inf", now - 60)
            pipeline.zrangebyscore(key("nodes"), now, "+inf")
            answer: list[Any] = await pipeline.execute()
            return answer

        found, _, _, alive = await self._redis.call(action)
        kept = found == holder.encode() or not self._beaten
        self._beaten = True
        return (Beat.KEPT if kept else Beat.LOST), {int(other) for other in alive} - {node}

    async def leave(self, node: int, holder: str) -> bool:
        """Takes the node out, as it serves nobody any more; False when it is out, or another holder's, by
        now."""
        return bool(await self._redis.script("node_leave", [f"node:{node}", "nodes"], [node, holder]))

    # Accounts

    async def enter_users(self, node: int, user_ids: Collection[int]) -> None:
        """Notes that the node holds sessions of these accounts."""
        expires = self._clock.time() + USER_S
        key = self._redis.key
        for chunk in _chunks(list(user_ids)):

            async def action(chunk: Sequence[int] = chunk) -> None:
                pipeline = self._redis.client.pipeline(transaction=False)
                for user_id in chunk:
                    pipeline.zadd(key("user", user_id, "nodes"), {str(node): expires})
                    pipeline.expire(key("user", user_id, "nodes"), USER_S)
                await pipeline.execute()

            await self._redis.call(action)

    async def leave_users(self, node: int, user_ids: Collection[int]) -> None:
        """Notes that the node holds no session of these accounts any more."""
        key = self._redis.key
        for chunk in _chunks(list(user_ids)):

            async def action(chunk: Sequence[int] = chunk) -> None:
                pipeline = self._redis.client.pipeline(transaction=False)
                for user_id in chunk:
                    pipeline.zrem(key("user", user_id, "nodes"), str(node))
                await pipeline.execute()

            await self._redis.call(action)

    async def nodes_of(self, user_ids: Sequence[int]) -> dict[int, set[int]]:
        """Returns which nodes hold sessions of each account, in one round trip."""
        now = self._clock.time()
        key = self._redis.key

        async def action() -> list[list[bytes]]:
            pipeline = self._redis.client.pipeline(transaction=False)
            for user_id in user_ids:
                pipeline.zrangebyscore(key("user", user_id, "nodes"), now, "+inf")
            answer: list[list[bytes]] = await pipeline.execute()
            return answer

        found = await self._redis.call(action)
        return {
            user_id: {int(node) for node in nodes} for user_id, nodes in zip(user_ids, found, strict=True)
        }

    # Sessions

    async def claim(self, node: int, auth_key_id: int, session_id: int) -> Claim:
        """Makes the node the session's owner; returns what was known of it, and takes what was left of it."""
        name = f"{auth_key_id}:{session_id}"
        old, state = await self._redis.script(
            "session_claim", [f"session:{name}", f"state:{name}"], [node, SESSION_S]
        )
        if old is None:
            return Claim(None, 0, state)
        owner, _, mark = old.decode().partition(" ")
        return Claim(int(owner), int(mark), state)

    async def mark(self, node: int, auth_key_id: int, session_id: int, msg_id: int) -> bool:
        """Notes that msg_ids up to *msg_id* may be executed; False when another node owns the session now."""
        answer = await self._redis.script(
            "session_mark", [f"session:{auth_key_id}:{session_id}"], [node, msg_id, SESSION_S]
        )
        return bool(answer)

    async def prolong(self, node: int, sessions: Sequence[tuple[int, int, int]]) -> None:
        """Keeps the node's sessions, as (auth_key_id, session_id, mark), entered, also when Redis lost
        them."""
        key = self._redis.key
        for chunk in _chunks(sessions):

            async def action(chunk: Sequence[tuple[int, int, int]] = chunk) -> None:
                pipeline = self._redis.client.pipeline(transaction=False)
                for key_id, session_id, mark in chunk:
                    name = key("session", key_id, session_id)
                    pipeline.set(name, f"{node} {mark}", ex=SESSION_S, nx=True)
                    pipeline.expire(name, SESSION_S)
                await pipeline.execute()

            await self._redis.call(action)

    async def owners(self, sessions: Sequence[tuple[int, int]]) -> list[int | None]:
        """Returns the node that owns each (auth_key_id, session_id)."""
        owners: list[int | None] = []
        for chunk in _chunks(sessions):
            values = await self._redis.mget(
                [f"session:{key_id}:{session_id}" for key_id, session_id in chunk]
            )
            owners += [None if value is None else int(value.split(b" ")[0]) for value in values]
        return owners

    async def leave_state(
        self, node: int, states: Sequence[tuple[int, int, int, bytes]]
    ) -> list[tuple[int, int]]:
        """Leaves exported sessions, as (auth_key_id, session_id, mark, state), for whoever claims them next.

        Returns those that another node has claimed already: it asks for them, and nothing was left.
        """

        async def leave(key_id: int, session_id: int, mark: int, state: bytes) -> bool:
            name = f"{key_id}:{session_id}"
            args = [node, state, STATE_S, mark, SESSION_S]
            return bool(await self._redis.script("session_leave", [f"session:{name}", f"state:{name}"], args))

        claimed: list[tuple[int, int]] = []
        for start in range(0, len(states), _AT_ONCE):
            chunk = states[start : start + _AT_ONCE]
            left = await asyncio.gather(*(leave(*state) for state in chunk))
            claimed += [state[:2] for state, ok in zip(chunk, left, strict=True) if not ok]
        return claimed


def _chunks(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
