"""Whom an account writes to most, told from what it sent lately: no write of a message does more for it.

*Spec: Top peer rating*
"""

from __future__ import annotations

from typing import Final

from telesrv.clock import Clock
from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.top_peers import DECAY_S, LOOKED_AT, TopPeer
from telesrv.store.dialog_settings import SQL_SETTINGS
from telesrv.store.pool import Pool

# Rates the peers of the messages that the owner sent lately, the highest first.
SQL_RATING: Final = """
SELECT sent.peer_type, sent.peer_id, sum(exp((sent.date - $3::double precision) / $4)) AS rating
FROM (
    SELECT peer_type, peer_id, box_id, date, outgoing, deleted, action FROM message_boxes
    WHERE owner_user_id = $1 AND box_id > $2 ORDER BY box_id DESC LIMIT $5
) AS sent
LEFT JOIN top_peer_resets r ON r.owner_user_id = $1 AND r.peer_type = sent.peer_type
    AND r.peer_id = sent.peer_id
WHERE sent.outgoing AND NOT sent.deleted AND sent.action IS NULL AND sent.box_id > coalesce(r.after_box_id, 0)
GROUP BY sent.peer_type, sent.peer_id
ORDER BY rating DESC, sent.peer_type, sent.peer_id
"""
# Has a peer rated anew: what the owner has sent so far does not count.
SQL_RESET: Final = """
INSERT INTO top_peer_resets (owner_user_id, peer_type, peer_id, after_box_id)
VALUES ($1, $2, $3, $4)
ON CONFLICT (owner_user_id, peer_type, peer_id) DO UPDATE SET after_box_id = excluded.after_box_id
"""
# Switches the rating, which begins anew.
SQL_TOGGLE: Final = """
INSERT INTO dialog_settings AS s (owner_user_id, top_peers_off, top_peers_after) VALUES ($1, $2, $3)
ON CONFLICT (owner_user_id) DO UPDATE SET top_peers_off = excluded.top_peers_off,
    top_peers_after = excluded.top_peers_after
WHERE s.top_peers_off <> excluded.top_peers_off
"""
# The owner's newest box.
SQL_NEWEST_BOX: Final = """
SELECT box_id FROM message_boxes WHERE owner_user_id = $1 ORDER BY box_id DESC LIMIT 1
"""


class TopPeerStore:
    """The rating of correspondents. Clients have no update for it: they ask once a day."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def correspondents(self, owner: int) -> list[TopPeer] | None:
        """Returns the rated private chats, the highest first; None when the owner switched the rating off.

        The newest 3,000 messages are looked at, deleted ones and those before a reset left out.

        *Spec: contacts.getTopPeers*
        """
        settings = await self._pool.fetchrow(SQL_SETTINGS, owner)
        if settings is not None and settings["top_peers_off"]:
            return None
        after = 0 if settings is None else settings["top_peers_after"]
        now = int(self._clock.time())
        rows = await self._pool.fetch(SQL_RATING, owner, after, now, DECAY_S, LOOKED_AT)
        return [
            TopPeer(Peer.user(row["peer_id"]), row["rating"])
            for row in rows
            if row["peer_type"] == PeerType.USER and row["peer_id"] not in (owner, SERVICE_USER_ID)
        ]

    async def reset(self, owner: int, peer: Peer) -> None:
        """Has one peer rated anew from now on.

        *Spec: contacts.resetTopPeerRating*
        """
        newest = await self._pool.fetchval(SQL_NEWEST_BOX, owner)
        if newest is not None:
            await self._pool.execute(SQL_RESET, owner, peer.type, peer.id, newest)

    async def toggle(self, owner: int, enabled: bool) -> None:
        """Switches the rating; what was sent before does not count any more.

        *Spec: contacts.toggleTopPeers*
        """
        newest = await self._pool.fetchval(SQL_NEWEST_BOX, owner)
        await self._pool.execute(SQL_TOGGLE, owner, not enabled, newest or 0)
