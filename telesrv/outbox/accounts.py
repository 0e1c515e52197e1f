"""What happens to accounts by itself: they go offline, and those that nobody uses go for good.

Guarantees: an account whose last link ended without a word is offline within seconds, and those who may know
are told: the last of the processes that hold sessions of it to miss a link does so. What Redis loses of that
is made good by the end that every report of being online has. A deletion whose process died goes on, and what
the account owned goes in batches, by every process in turn until nothing is left. Accounts that nobody used
for as long as they themselves allow are deleted, looked for by one process of all about once an hour.

Concurrency: one task. Lifecycle: `start`, then `stop`, which ends it wherever it is: everything it does is
found again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from telesrv.clock import Clock
from telesrv.outbox.turns import Turns
from telesrv.rpc.audience import set_offline, tell_presence
from telesrv.rpc.context import SessionControl
from telesrv.store import Store

log = structlog.get_logger(__name__)

LOOK_S: Final = 5.0
"""How often it looks who has gone, and for deletions that were left."""
GRACE_S: Final = 10.0
"""How long a link may be away: a client that changes networks has not gone."""
SETTLE_S: Final = 60
"""After how long what a deleted account owned goes: what was under way has been written then."""
PURGED_AT_ONCE: Final = 50
"""How many batches of what deleted accounts owned go at one look: it has to look who has gone, too."""
IDLE_EVERY_S: Final = 3_600
MAX_OFFLINE: Final = 500
"""How many accounts it reports offline at one look; the rest go when their reports end."""


class AccountKeeper:
    """Keeps the accounts of one process.

    Args:
        held: returns the accounts that have sessions here.
        linked: returns those of them that have an open link.
        elsewhere: returns which other processes hold sessions of some accounts.
        node: the number of this process.
    """

    def __init__(
        self,
        store: Store,
        sessions: SessionControl,
        clock: Clock,
        *,
        held: Callable[[], set[int]],
        linked: Callable[[], set[int]],
        elsewhere: Callable[[Sequence[int]], Awaitable[Mapping[int, set[int]]]],
        node: int,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._clock = clock
        self._held = held
        self._linked = linked
        self._elsewhere = elsewhere
        self._node = node
        self._here: set[int] = set()
        self._settled: set[int] = set()
        """Accounts whose clients are away, as was reported."""
        self._left: set[int] = set()
        """Accounts that the other processes know to have no link here."""
        self._away: dict[int, tuple[float, int]] = {}
        """Since when a link is missed: by the monotonic clock, and in unix seconds."""
        self._idle_at = clock.monotonic() + IDLE_EVERY_S
        self._turns = Turns(patience_s=0)

    def start(self) -> None:
        """Starts the task."""
        self._turns.begin("the keeper of accounts", self.look, LOOK_S)

    async def stop(self) -> None:
        """Ends the task."""
        await self._turns.stop()

    async def look(self) -> bool:
        """Does all that is due now; False, as nothing is left.

        Raises:
            Unavailable: a server is away; what was not done is due again.
        """
        await self._look_for_gone()
        left = PURGED_AT_ONCE
        for user_id, settled in (await self._store.deletion.left(SETTLE_S)).items():
            await self._tell_of_deletion(user_id)
            if settled:
                await self._store.until_online.never_comes(user_id)
            while settled and left and await self._store.purge.step(user_id):
                left -= 1
        if self._clock.monotonic() >= self._idle_at:
            self._idle_at = self._clock.monotonic() + IDLE_EVERY_S
            await self._delete_idle()
        return False

    async def _look_for_gone(self) -> None:
        now, linked, held = self._clock.monotonic(), self._linked(), self._held()
        for user_id in self._left & linked:
            await self._store.presence.back(user_id, self._node)
            self._left.discard(user_id)
        self._settled &= held - linked
        missed = (now, int(self._clock.time()))
        for user_id in (held | self._here) - linked - self._settled:
            self._away.setdefault(user_id, missed)
        self._away = {user_id: since for user_id, since in self._away.items() if user_id not in linked}
        self._here = linked
        gone = {user_id: at for user_id, (since, at) in self._away.items() if now - since >= GRACE_S}
        if gone:
            await self._report(gone)
            self._settled |= gone.keys()
            self._away = {user_id: since for user_id, since in self._away.items() if user_id not in gone}

    async def _report(self, gone: Mapping[int, int]) -> None:
        """Reports those offline who have no open link to any process any more; *gone* says since when."""
        elsewhere = await self._elsewhere(list(gone))
        linked_there = set()
        for user_id, nodes in elsewhere.items():
            self._left.add(user_id)
            if nodes - await self._store.presence.left(user_id, self._node):
                linked_there.add(user_id)
        presence = await self._store.presence.get(
            [user_id for user_id in gone if user_id not in linked_there]
        )
        wall = int(self._clock.time())
        online = [user_id for user_id, seen in presence.items() if seen.online_until > wall]
        for user_id in online[:MAX_OFFLINE]:
            await set_offline(self._store, self._sessions, user_id, gone[user_id])
            await tell_presence(self._store, self._sessions, user_id, wall)

    async def _tell_of_deletion(self, user_id: int) -> None:
        while await self._store.deletion.step(user_id):
            pass

    async def _delete_idle(self) -> None:
        if not await self._store.deletion.take_turn(IDLE_EVERY_S):
            return
        place: tuple[int, int] | None = (-1, 0)
        while place is not None:
            page = await self._store.deletion.idle(place)
            for user_id in page.user_ids:
                log.info("an account that nobody used is deleted", user_id=user_id)
                keys = await self._store.deletion.begin(user_id)
                await self._sessions.log_out(keys or [])
                await self._tell_of_deletion(user_id)
            place = page.next
