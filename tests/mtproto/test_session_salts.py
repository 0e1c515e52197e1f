"""Server salts: without storage, the same everywhere, each accepted for an hour."""

from __future__ import annotations

from itertools import pairwise

import pytest

from telesrv.mtproto.salts import PERIOD_S, SaltSchedule

NOW = 944_444 * PERIOD_S + 600.0


def schedule(secret: bytes = b"s", key_id: int = -5) -> SaltSchedule:
    return SaltSchedule(secret, key_id)


def test_every_process_gives_the_same_salt_and_every_key_another() -> None:
    assert schedule().current(NOW) == schedule().current(NOW + 100)
    assert schedule().current(NOW) != schedule(key_id=6).current(NOW)
    assert schedule().current(NOW) != schedule(secret=b"t").current(NOW)
    assert -(2**63) <= schedule().current(NOW) < 2**63


@pytest.mark.parametrize(
    ("after_s", "valid"),
    [
        (-1200, False),  # another period: it is not known yet
        (-601, True),  # a client whose clock runs a little ahead
        (-661, False),
        (0, True),
        (PERIOD_S, True),  # the period after
        (PERIOD_S + 1199, True),
        (PERIOD_S + 1200, False),
    ],
)
def test_a_salt_lives_for_its_period_and_the_next(after_s: float, valid: bool) -> None:
    salts = schedule()
    salt = salts.current(NOW)
    for _ in range(2):
        assert salts.is_valid(salt, NOW + after_s) is valid


def test_a_salt_nobody_gave_is_refused() -> None:
    assert not schedule().is_valid(0, NOW)


def test_the_salt_of_the_key_exchange_is_accepted_for_a_while() -> None:
    salts = SaltSchedule(b"s", 1, first_salt=77, first_salt_until=NOW + 10)
    assert salts.is_valid(77, NOW)
    assert not salts.is_valid(77, NOW + 10)
    assert not schedule().is_valid(77, NOW)


@pytest.mark.parametrize(("asked", "given"), [(-1, 32), (0, 32), (1, 32), (32, 32), (64, 64), (10_000, 64)])
def test_future_salts_are_a_stock(asked: int, given: int) -> None:
    salts = schedule()
    future = salts.future(NOW, asked)
    assert len(future) == given
    assert future[0].salt == salts.current(NOW)
    for one, following in pairwise(future):
        assert following.valid_since == one.valid_since + PERIOD_S
        assert one.valid_until == one.valid_since + 2 * PERIOD_S
    for salt in future:
        assert salts.is_valid(salt.salt, salt.valid_since)
        assert salts.is_valid(salt.salt, salt.valid_until - 1)
        assert not salts.is_valid(salt.salt, salt.valid_until)
