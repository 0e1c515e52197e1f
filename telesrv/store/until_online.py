"""Messages that wait until the other side is online.

Guarantees: what waits for an account is let go by the first process that learns that it is online: when it
says so, when a message is put on the list for one that is online already, and, should the process that
learned of it die, by the look that every process takes in turn at all who are waited for. Letting go is one
transaction; from then on a message is due as any other, and sent once (`due.py`).

It is let go only for those who may see when the account is online: by the rules as they are then, since the
time at which it is sent tells them. For others it goes on waiting, until they may, or send it themselves.

Concurrency: who puts a message on the list locks the row of `online_waits`, and who lets go takes only rows
that nobody has locked: so no message is left behind with its row gone. Rows are locked before those of
`scheduled_messages`. A row that outlived its messages goes when it is taken.

*Spec: Scheduled messages*
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.peers import SERVICE_USER_ID
from telesrv.domain.privacy import PrivacyKey
from telesrv.domain.scheduled import WHEN_ONLINE
from telesrv.domain.updates import OUTBOX_BUCKETS, bucket_of
from telesrv.domain.users import Seen, UserView
from telesrv.store.pool import REPEATABLE, Connection, Pool
from telesrv.store.presence import PresenceStore
from telesrv.store.users import UserStore

PAGE: Final = 100
"""How many owners one transaction lets go, each with the at most 100 messages of one chat."""
AT_ONCE: Final = 4
"""How many pages are let go before the account that came online has its answer; the look does the rest."""
_ACCOUNTS: Final = 500
_TRIES: Final = 3

# Notes that an owner waits for an account, and keeps the row from being taken until the commit.
SQL_WAIT: Final = """
INSERT INTO online_waits (bucket, user_id, owner_user_id, waits_since) VALUES ($1, $2, $3, $4)
ON CONFLICT (bucket, user_id, owner_user_id) DO UPDATE SET waits_since = excluded.waits_since
"""
# A page of those who wait for an account.
SQL_WAITING: Final = """
SELECT owner_user_id FROM online_waits WHERE bucket = $1 AND user_id = $2 AND owner_user_id > $3
ORDER BY owner_user_id LIMIT $4
"""
# A page of the accounts of a bucket that are waited for.
SQL_AWAITED: Final = """
SELECT user_id FROM online_waits WHERE bucket = $1 AND user_id > $2 GROUP BY user_id ORDER BY user_id LIMIT $3
"""
# Takes those of some waits for an account that nobody adds to now.
SQL_TAKE: Final = """
WITH free AS (
    SELECT owner_user_id FROM online_waits
    WHERE bucket = $1 AND user_id = $2 AND owner_user_id = ANY($3::bigint[])
    ORDER BY owner_user_id FOR UPDATE SKIP LOCKED
)
DELETE FROM online_waits w USING free
WHERE w.bucket = $1 AND w.user_id = $2 AND w.owner_user_id = free.owner_user_id
RETURNING w.owner_user_id
"""
# Makes due what some owners have waiting for an account.
SQL_LET_GO: Final = """
UPDATE scheduled_messages s SET due_date = $4
FROM unnest($1::smallint[], $2::bigint[]) AS q(bucket, owner_user_id)
WHERE s.bucket = q.bucket AND s.owner_user_id = q.owner_user_id AND s.peer_type = 1 AND s.peer_id = $3
    AND s.state = 0 AND s.due_date = $5
"""


async def wait_for(connection: Connection, owner: int, user_id: int, date: int) -> None:
    """Notes in the caller's transaction that the owner's messages wait for an account, before they do."""
    await connection.execute(SQL_WAIT, bucket_of(user_id), user_id, owner, date)


class UntilOnlineStore:
    """What waits for accounts to come online."""

    def __init__(self, pool: Pool, users: UserStore, presence: PresenceStore, clock: Clock) -> None:
        self._pool = pool
        self._users = users
        self._presence = presence
        self._clock = clock
        self._bucket = 0

    async def may_wait(self, owner: int, user_id: int) -> bool:
        """Tells whether the owner may see when the account is online; not of oneself and the service."""
        if user_id in (owner, SERVICE_USER_ID):
            return False
        view = (await self._users.views(owner, [user_id])).get(user_id)
        return view is not None and _sees_online(view)

    async def came(self, user_id: int, pages: int = AT_ONCE) -> int:
        """Lets go what waits for an account that is online; returns for how many owners.

        Raises:
            Unavailable: a server is away; the look comes back to it.

        *Spec: account.updateStatus*
        """
        done, after = 0, 0
        for _ in range(pages):
            owners = await self._waiting(user_id, after)
            if not owners:
                break
            views = await self._users.seen_by(user_id, owners)
            told = [owner for owner in owners if owner in views and _sees_online(views[owner])]
            done += await self._let_go(user_id, told)
            after = owners[-1]
        return done

    async def came_already(self, user_id: int) -> int:
        """Lets go what waits for an account, if that is online; as `came`."""
        presence = (await self._presence.known([user_id])).get(user_id)
        if presence is None or presence.online_until <= self._clock.time():
            return 0
        return await self.came(user_id)

    async def never_comes(self, user_id: int) -> int:
        """Makes due what waits for an account that is gone: it cannot be sent, and leaves the lists."""
        done = 0
        while owners := await self._waiting(user_id, 0):
            done += (gone := await self._let_go(user_id, owners))
            if not gone:
                break  # somebody adds to them: the next call goes on
        return done

    async def look(self) -> int:
        """Lets go what was left waiting for accounts of the next bucket that are online; returns for how many
        owners.

        To be called every second or so, by every process.

        Raises:
            Unavailable: a server is away; the bucket comes again.
        """
        bucket, self._bucket = self._bucket, (self._bucket + 1) % OUTBOX_BUCKETS
        now, done, after = self._clock.time(), 0, 0
        while rows := await self._pool.fetch(SQL_AWAITED, bucket, after, _ACCOUNTS):
            awaited = [row["user_id"] for row in rows]
            for user_id, presence in (await self._presence.known(awaited)).items():
                if presence.online_until > now:
                    done += await self.came(user_id, pages=OUTBOX_BUCKETS * AT_ONCE)
            after = awaited[-1]
        return done

    async def _waiting(self, user_id: int, after: int) -> list[int]:
        rows = await self._pool.fetch(SQL_WAITING, bucket_of(user_id), user_id, after, PAGE)
        return [row["owner_user_id"] for row in rows]

    async def _let_go(self, user_id: int, owners: Sequence[int]) -> int:
        for _ in range(_TRIES if owners else 0):
            with suppress(*REPEATABLE):
                return await self._take(user_id, owners)
        return 0

    async def _take(self, user_id: int, owners: Sequence[int]) -> int:
        async with self._pool.transaction() as connection:
            rows = await connection.fetch(SQL_TAKE, bucket_of(user_id), user_id, owners)
            taken = sorted((bucket_of(row["owner_user_id"]), row["owner_user_id"]) for row in rows)
            if taken:
                columns = [list(column) for column in zip(*taken, strict=True)]
                now = int(self._clock.time())
                await connection.execute(SQL_LET_GO, *columns, user_id, now, WHEN_ONLINE)
        return len(taken)


def _sees_online(view: UserView) -> bool:
    if view.user.deleted or view.blocked or view.presence.seen is not Seen.EXACTLY:
        return False
    return view.may(PrivacyKey.STATUS_TIMESTAMP)
