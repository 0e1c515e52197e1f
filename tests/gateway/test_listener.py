"""A listener without room says so seldom, however many come."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import structlog

from telesrv.clock import FakeClock
from telesrv.gateway.connection import GatewayContext
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.listener import Listener
from tests.support.waiting import until

MANY = 300


async def come_and_see(host: str, port: int) -> bytes:
    """Opens a link; returns what is said on it until the server closes it."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_refused_links_are_closed_and_told_of_together() -> None:
    nobody = cast(Any, None)  # no link that is refused comes as far as these
    with ThreadPoolExecutor(1) as executor:
        listener = Listener(
            GatewayContext(
                dispatcher=nobody,
                hub=cast(Any, ()),
                node=nobody,
                limits=GatewayLimits(max_connections=0),
                clock=FakeClock(),
                rsa_keys=(),
                proxy_secret=None,
                executor=executor,
                computations=asyncio.Semaphore(1),
            )
        )
        with structlog.testing.capture_logs() as lines:
            host, port = await listener.start("127.0.0.1", 0)
            assert await asyncio.gather(*(come_and_see(host, port) for _ in range(MANY))) == [b""] * MANY
            await until(lambda: sum(line["count"] for line in lines) == MANY, "every link to be told of")
        await listener.stop_accepting()
        await listener.close()
    assert {line["event"] for line in lines} == {"connection refused: too many"}
    assert len(lines) < MANY / 10
