"""Random sequences of everything one can do in private chats: every way of knowing comes to the same."""

from __future__ import annotations

import pytest
import uvloop

from tests.model.world import run

STEPS = 1_000  # `make soak` runs tens of thousands with random seeds


@pytest.mark.parametrize("seed", [1, 2])
def test_pushes_differences_and_fresh_logins_agree(
    postgres_dsn: str, redis_url: str, redis_prefix: str, seed: int
) -> None:
    done = uvloop.run(run(postgres_dsn, redis_url, redis_prefix, seed, STEPS))
    assert len(done) > 30, sorted(done)
