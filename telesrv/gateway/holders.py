"""Which processes hold sessions of which accounts.

Guarantees: an account whose session is here is entered before the session gets its first update, so that
whoever pushes to the account afterwards pushes here too; an entry does not outlive the account's sessions by
more than a moment, nor the process. Redis losing them is made good by `enter_all`.

Concurrency: one event loop; entering and leaving exclude each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from telesrv.gateway.hub import SessionHub
from telesrv.gateway.peers import Peers
from telesrv.store.session_registry import SessionRegistry


class Holders:
    """The accounts of this process as the others see them, and theirs as this one does."""

    def __init__(self, peers: Peers, registry: SessionRegistry, hub: SessionHub) -> None:
        self._peers = peers
        self._registry = registry
        self._hub = hub
        self._entered: set[int] = set()
        self._entering = asyncio.Lock()

    async def enter(self, user_id: int) -> None:
        """Returns when every process knows that this one holds sessions of the account.

        Raises:
            Unavailable: Redis is away.
        """
        if user_id in self._entered:
            return
        async with self._entering:
            await self._registry.enter_users(self._peers.number, [user_id])
            self._entered.add(user_id)

    async def enter_all(self) -> None:
        """Enters anew every account that has a session here.

        Raises:
            Unavailable: Redis is away.
        """
        async with self._entering:
            users = self._hub.users
            await self._registry.enter_users(self._peers.number, users)
            self._entered = set(users)

    async def drop_left(self) -> list[int]:
        """Takes out the accounts whose last session here has ended; returns which.

        Raises:
            Unavailable: Redis is away.
        """
        async with self._entering:
            left = [u for u in self._hub.users_left if not self._hub.has_sessions(u)]
            self._hub.users_left.clear()
            self._entered.difference_update(left)
            if left:
                await self._registry.leave_users(self._peers.number, left)
        return left

    async def leave(self) -> None:
        """Takes every account out: this process ends.

        Raises:
            Unavailable: Redis is away.
        """
        await self._registry.leave_users(self._peers.number, self._entered)

    async def elsewhere(self, user_ids: Sequence[int]) -> dict[int, set[int]]:
        """Returns the other living nodes that hold sessions of each account; empty when this node is alone.

        Raises:
            Unavailable: it cannot be known now.
        """
        living = await self._peers.living()
        if not living:
            return {}
        found = await self._registry.nodes_of(user_ids)
        return {user_id: nodes & living for user_id, nodes in found.items() if nodes & living}
