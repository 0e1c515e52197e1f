"""What happens by itself at its time: scheduled messages are sent, expired ones deleted, new ones indexed,
and new accounts told of to those who have their phone numbers.

Guarantees: each happens once, by whichever process comes first, soon after its time as long as one lives;
the store's leases see to that, and end with who holds them. Concurrency: one task for each kind. Lifecycle:
`start`, then `stop`, which lets a turn under way end, for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from telesrv.outbox.turns import Turns
from telesrv.store import Store

_INTERVAL_S = 1.0
_STOP_S = 3.0


class Timers:
    """Runs the timed work of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = Turns(_STOP_S)

    def start(self) -> None:
        """Starts the tasks."""
        self._begin("scheduled messages", self._store.due.dispatch)
        self._begin("messages until online", self._store.until_online.look)
        self._begin("expired messages", self._store.ttl.expire)
        self._begin("search index", self._store.search.index_due)
        self._begin("contacts that signed up", self._store.sign_ups.tell_due)

    async def stop(self) -> None:
        """Lets the turns under way end, and ends the tasks."""
        await self._turns.stop()

    def _begin(self, name: str, do_some: Callable[[], Awaitable[int]]) -> None:
        async def turn() -> bool:
            return await do_some() > 0

        self._turns.begin(name, turn, _INTERVAL_S)
