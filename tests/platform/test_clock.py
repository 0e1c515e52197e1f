"""The fake clock moves as told and never back."""

from __future__ import annotations

import pytest

from telesrv.clock import Clock, FakeClock, SystemClock


def test_a_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(time=100.0, monotonic=5.0)
    clock.advance(1.5)
    assert (clock.time(), clock.monotonic()) == (101.5, 6.5)
    clock.set_time(50.0)
    assert (clock.time(), clock.monotonic()) == (50.0, 6.5)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


def test_both_clocks_are_clocks() -> None:
    clocks: list[Clock] = [FakeClock(), SystemClock()]
    for clock in clocks:
        assert clock.monotonic() <= clock.monotonic()
        assert clock.time() > 1_600_000_000
