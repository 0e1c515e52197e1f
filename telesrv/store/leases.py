"""Leases on rows that are due: who works on one, so that nobody else does.

Guarantees: a leased row is passed over by every process until its holder gives it back, its time is up, or
its holder is gone: buried, ended, or without its node number for another reason (`nodes.py`). So nobody waits
for a process that died. A process that only hung may go on with what another has taken over: what is done
under a lease does no harm when it is done twice.

A table whose rows are leased has the columns `leased_until_ms` and `leased_by`; a row that was never leased,
or was given back, has 0 and NULL there. Times are of the processes' clocks, but for those of `nodes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from telesrv.clock import Clock
from telesrv.store.nodes import unix_ms

LEASE_MS: Final = 60_000
"""Longer than what is done under one lease takes; waited out only where a holder that lives has failed."""


def free(row: str, now_ms: str) -> str:
    """Returns the SQL condition that nobody works on a row.

    Args:
        row: the alias of a table with leases.
        now_ms: an expression for the time, in unix milliseconds.
    """
    return f"""({row}.leased_until_ms <= {now_ms} OR ({row}.leased_by IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM nodes n WHERE n.holder = {row}.leased_by
            AND n.expires_at_ms > (extract(epoch FROM statement_timestamp()) * 1000)::bigint)))"""  # noqa: S608


class Leases:
    """The terms on which this process leases."""

    def __init__(self, clock: Clock, holder: Callable[[], str | None]) -> None:
        """*holder* tells who holds the node number here; None, without a number: leases end by time alone."""
        self._clock = clock
        self._holder = holder

    def now_ms(self) -> int:
        """Returns the time, for `free`."""
        return unix_ms(self._clock)

    def terms(self) -> tuple[int, int, str | None]:
        """Returns the time, for `free`, and what a row that is leased now has in its two columns."""
        now_ms = self.now_ms()
        return now_ms, now_ms + LEASE_MS, self._holder()
