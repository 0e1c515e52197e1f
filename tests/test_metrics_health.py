"""Health over HTTP on real servers, and what happens without them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from telesrv import health, metrics
from telesrv.config import Address
from telesrv.health import HealthServer
from tests.support.http import get, send
from tests.support.waiting import LONGEST_S

DEAD = "127.0.0.1:1"


@asynccontextmanager
async def serving(
    dsn: str,
    url: str,
    prefix: str,
    workers: Callable[[], bool] = lambda: True,
    directory: Path | None = None,
    timeout_s: float = LONGEST_S,
) -> AsyncIterator[HealthServer]:
    server = HealthServer(
        Address("127.0.0.1:0"), dsn, url, directory, workers, redis_prefix=prefix, timeout_s=timeout_s
    )
    async with server:
        yield server


async def test_all_is_well(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        assert (await get(server.port, "/healthz"))[0] == 200
        status, headers, body = await get(server.port, "/readyz?verbose")
        assert status == 200, body
        assert json.loads(body) == {"ready": True, "postgres": "ok", "redis": "ok", "workers": "ok"}
        assert headers["connection"] == "close"


async def test_workers_that_do_not_accept(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    ready = False
    async with serving(postgres_dsn, redis_url, redis_prefix, lambda: ready) as server:
        status, _, body = await get(server.port, "/readyz")
        assert (status, json.loads(body)["workers"]) == (503, "not all accept clients")
        ready = True
        assert (await get(server.port, "/readyz"))[0] == 200


@pytest.mark.parametrize("missing", ["postgres", "redis"])
async def test_it_says_which_store_is_away(
    missing: str, postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    dsn = f"postgresql://telesrv:hidden@{DEAD}/telesrv" if missing == "postgres" else postgres_dsn
    url = f"redis://:hidden@{DEAD}/0" if missing == "redis" else redis_url
    async with serving(dsn, url, redis_prefix) as server:
        status, _, body = await get(server.port, "/readyz")
        assert status == 503
        found = json.loads(body)
        assert [name for name, text in found.items() if text != "ok"] == ["ready", missing]
        assert b"hidden" not in body
        assert (await get(server.port, "/healthz"))[0] == 200
        status, _, body = await get(server.port, "/metrics")
        assert status == 200
        assert f'telesrv_ready{{check="{missing}"}} 0.0'.encode() in body


async def test_a_store_that_never_answers_ends_in_time(
    postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    connected: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: connected.append(writer), "127.0.0.1", 0)
    address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    dsn, url = f"postgresql://a@{address}/b", f"redis://{address}"
    async with serving(dsn, url, redis_prefix, timeout_s=1.0) as server:
        status, _, body = await get(server.port, "/readyz")
    assert status == 503
    found = json.loads(body)
    assert found["postgres"] == found["redis"] == "no answer within 1 s"
    for writer in connected:
        writer.close()
    silent.close()


async def test_a_database_without_a_schema(
    empty_postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    async with serving(empty_postgres_dsn, redis_url, redis_prefix) as server:
        status, _, body = await get(server.port, "/readyz")
        assert (status, json.loads(body)["postgres"]) == (503, "has no schema")


async def test_metrics_have_the_backlog(
    postgres_dsn: str, redis_url: str, redis_prefix: str, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute(
        "INSERT INTO dispatch_outbox (bucket, target_user_id, pts, created_at_ms) "
        "SELECT 1, 5, i, (extract(epoch FROM now()) * 1000)::bigint - 60000 FROM generate_series(1, 3) i"
    )
    await connection.close()
    directory = metrics.fresh_directory(tmp_path)
    async with serving(postgres_dsn, redis_url, redis_prefix, directory=directory) as server:
        status, headers, body = await get(server.port, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    assert b"telesrv_outbox_waiting_rows 3.0" in body
    (oldest,) = [line for line in body.splitlines() if line.startswith(b"telesrv_outbox_oldest_seconds")]
    assert 59 < float(oldest.split()[1]) < 600
    assert b'telesrv_ready{check="postgres"} 1.0' in body


async def test_what_is_not_there(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        assert (await get(server.port, "/"))[0] == 404
        assert (await get(server.port, "/metrics/.."))[0] == 404
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            status, headers, _ = await get(server.port, "/healthz", method)
            assert (status, headers["allow"]) == (405, "get, head")
        status, headers, body = await get(server.port, "/healthz", "HEAD")
        assert (status, headers["content-length"], body) == (200, "3", b"")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 60 + b"\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 9000, 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 100, 405),
    ],
    ids=["tls", "no host", "long", "body"],
)
async def test_requests_that_are_none(
    request_bytes: bytes, status: int, postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        assert (await send(server.port, request_bytes))[0] == status
        assert (await get(server.port, "/healthz"))[0] == 200


async def test_connections_are_bounded(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        idle = [
            await asyncio.open_connection("127.0.0.1", server.port) for _ in range(health.MAX_CONNECTIONS)
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with pytest.raises(ConnectionResetError):
            if await reader.read() == b"":
                raise ConnectionResetError
        writer.close()
        for _, some in idle:
            some.close()
            await some.wait_closed()
    # The context's end waits for none of them.


async def test_off(postgres_dsn: str, redis_url: str) -> None:
    async with HealthServer(None, postgres_dsn, redis_url, None, lambda: True) as server:
        assert server.port == 0


async def test_a_port_in_use_is_named(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        address = Address(f"127.0.0.1:{server.port}")
        with pytest.raises(OSError, match="TELESRV_METRICS_LISTEN=127"):
            async with HealthServer(address, postgres_dsn, redis_url, None, lambda: True):
                pass
