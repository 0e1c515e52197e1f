"""One process that forks for each command of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admin.commands import Forker


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    forker = Forker()
    yield forker
    forker.close()
