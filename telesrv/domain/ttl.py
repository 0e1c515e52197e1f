"""Messages that are deleted by themselves.

*Spec: messages.setHistoryTTL*
"""

from __future__ import annotations

from typing import Final

from telesrv.domain.errors import DomainError

MAX_PERIOD_S: Final = 366 * 86_400


class PeriodInvalid(DomainError):
    """A period that messages cannot have."""


def check_period(period_s: int) -> None:
    """Accepts 0, for never, and up to a year.

    Raises:
        PeriodInvalid: it is something else.
    """
    if not 0 <= period_s <= MAX_PERIOD_S:
        raise PeriodInvalid
