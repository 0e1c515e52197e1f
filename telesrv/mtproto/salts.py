"""Server salts that no one stores: each is a keyed hash of its auth key and of the half hour it begins in.

Guarantees: every process that shares the secret gives the same salts; a salt is accepted during its own
period and the next one, so that a packet under way when the period ends is not refused.

*Spec: Mobile Protocol: Detailed Description, "Server Salt"; Service Messages, "Future Salts"*
"""

from __future__ import annotations

from typing import Final

from telesrv.mtproto.crypto import derive_salt
from telesrv.tl import mt

PERIOD_S: Final = 1800
EARLY_S: Final = 60
"""A client that knows the next salt may change to it by its own clock, which runs this much ahead at
most."""

MIN_FUTURE_SALTS: Final = 32
"""Given even when fewer are asked for: a client that keeps a stock asks again at once while it is short."""

MAX_FUTURE_SALTS: Final = 64
"""The public limit of one request."""


class SaltSchedule:
    """The salts of one auth key.

    Args:
        secret: what all processes share.
        auth_key_id: signed id of the key that encrypts the packets.
        first_salt: the salt that the key exchange gave the client (new_nonce xor server_nonce), if it was
            just made; it is accepted besides, until ``first_salt_until``.
        first_salt_until: Unix time.
    """

    __slots__ = ("_auth_key_id", "_cache", "_first_salt", "_first_salt_until", "_secret")

    def __init__(
        self, secret: bytes, auth_key_id: int, *, first_salt: int | None = None, first_salt_until: float = 0.0
    ) -> None:
        self._secret = secret
        self._auth_key_id = auth_key_id
        self._first_salt = first_salt
        self._first_salt_until = first_salt_until
        self._cache: dict[int, int] = {}

    def _salt(self, period: int) -> int:
        salt = self._cache.get(period)
        if salt is None:
            if len(self._cache) > 3:
                self._cache.clear()
            salt = self._cache[period] = derive_salt(self._secret, self._auth_key_id, period)
        return salt

    def current(self, now: float) -> int:
        """Returns the salt of the period that ``now`` (Unix time) lies in: signed 64 bits."""
        return self._salt(int(now // PERIOD_S))

    def is_valid(self, salt: int, now: float) -> bool:
        """Tells whether a packet with this salt is accepted: of this period, the one before, or about to
        begin."""
        period = int(now // PERIOD_S)
        if salt in (self._salt(period), self._salt(period - 1)):
            return True
        if salt == self._first_salt and now < self._first_salt_until:
            return True
        next_period = int((now + EARLY_S) // PERIOD_S)
        return next_period != period and salt == self._salt(next_period)

    def future(self, now: float, count: int) -> list[mt.FutureSalt]:
        """Returns the salts from the current one on, 32 to 64 of them, each with the time of its
        validity."""
        first = int(now // PERIOD_S)
        count = min(max(count, MIN_FUTURE_SALTS), MAX_FUTURE_SALTS)
        return [
            mt.FutureSalt(
                valid_since=period * PERIOD_S,
                valid_until=(period + 2) * PERIOD_S,
                salt=derive_salt(self._secret, self._auth_key_id, period),
            )
            for period in range(first, first + count)
        ]
