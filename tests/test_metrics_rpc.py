"""Calls are counted by the methods that are served, and never by what a client makes up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import structlog.testing

from telesrv import metrics
from telesrv.domain.errors import FloodWait, Unavailable
from telesrv.tl import functions
from tests.rpc.devices import Refused, Server, serving
from tests.rpc.test_dispatch import raising


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def counted() -> dict[tuple[str, str], float]:
    """Calls by method and outcome."""
    return {
        (sample.labels["method"], sample.labels["outcome"]): sample.value
        for family in metrics.RPC.collect()
        for sample in family.samples
        if sample.name == "telesrv_rpc_total"
    }


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (Unavailable("PostgreSQL"), "unavailable"),
        (FloodWait(3), "limited"),
        (ZeroDivisionError(), "failed"),
    ],
    ids=["ok", "unavailable", "limited", "failed"],
)
async def test_outcomes(server: Server, error: Exception | None, outcome: str) -> None:
    device = await server.device()
    before = counted().get(("help.getConfig", outcome), 0)
    if error is None:
        await device.call(functions.help.GetConfig())
    else:
        broken = raising(functions.help.GetConfig, error)
        with broken, structlog.testing.capture_logs(), pytest.raises(Refused):
            await device.call(functions.help.GetConfig())
    assert counted()["help.getConfig", outcome] == before + 1


async def test_what_is_not_served_makes_no_label(server: Server) -> None:
    device, _ = await server.account()
    before = counted()
    with pytest.raises(Refused):
        await device.call(functions.phone.GetCallConfig())
    await device.raw(b"\xef\xbe\xad\xde")
    after = counted()
    assert after["other", "refused"] == before.get(("other", "refused"), 0) + 2
    assert after.keys() == before.keys() | {("other", "refused")}
