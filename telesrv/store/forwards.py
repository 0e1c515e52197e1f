"""What was forwarded before: a repeat finds its messages even when what it took them from is gone.

*Spec: messages.forwardMessages*
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from telesrv.store.pool import Pool

# What some messages of one sender were asked for as.
SQL_DIGESTS: Final = """
SELECT random_id, digest FROM private_messages WHERE sender_user_id = $1 AND random_id = ANY($2::bigint[])
"""


class ForwardStore:
    """Reads for forwards; the messages themselves are sent as any other."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def sent_before(self, sender: int, random_ids: Collection[int]) -> dict[int, bytes]:
        """Returns the digests of those messages that were sent, by their random_id.

        *Spec: messages.forwardMessages*
        """
        rows = await self._pool.fetch(SQL_DIGESTS, sender, sorted(random_ids))
        return {row["random_id"]: bytes(row["digest"]) for row in rows}
