"""Delivery of login codes, against a real HTTP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog.testing

from telesrv.rpc.codes import CodeDelivery, LogCodeSender, WebhookCodeSender


@asynccontextmanager
async def webhook(answers: list[bytes]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serves one answer after another; keeps the requests."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        requests.append(head + await reader.readexactly(length))
        writer.write(answers.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/code", requests
    finally:
        server.close()
        await server.wait_closed()


def answer(status: str, extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{extra}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()


async def test_the_webhook_gets_the_code_as_json() -> None:
    async with webhook([answer("204 No Content")]) as (url, requests):
        assert await WebhookCodeSender(url).send("15550001", "12345", 99)
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /code HTTP/1.1")
    assert b"application/json" in head
    assert json.loads(body) == {"phone": "15550001", "code": "12345", "expires_at": 99}


async def test_a_failed_post_is_tried_again() -> None:
    async with webhook([answer("503 Busy"), answer("200 OK")]) as (url, requests):
        assert await WebhookCodeSender(url, pause_s=0).send("1", "12345", 99)
    assert len(requests) == 2


async def test_it_gives_up_and_logs_neither_code_nor_url() -> None:
    async with webhook([answer("500 No")] * 3) as (url, requests):
        with structlog.testing.capture_logs() as logs:
            assert not await WebhookCodeSender(url, pause_s=0).send("15550001", "12345", 99)
    assert len(requests) == 3
    [line] = logs
    assert line["log_level"] == "error"
    assert "12345" not in str(line) and url not in str(line)
    assert url not in repr(WebhookCodeSender(url))


async def test_a_redirect_is_not_followed() -> None:
    moved = answer("302 Found", "Location: http://127.0.0.1:1/\r\n")
    async with webhook([moved]) as (url, requests):
        with structlog.testing.capture_logs():
            assert not await WebhookCodeSender(url, attempts=1).send("1", "12345", 99)
    assert len(requests) == 1


async def test_nobody_there_is_a_failure() -> None:
    with structlog.testing.capture_logs():
        assert not await WebhookCodeSender("http://127.0.0.1:1/", pause_s=0).send("1", "12345", 99)


async def test_the_log_is_a_sender() -> None:
    with structlog.testing.capture_logs() as logs:
        assert await LogCodeSender().send("15550001", "12345", 99)
    assert logs == [
        {"event": "login code", "log_level": "info", "phone": "15550001", "code": "12345", "expires_at": 99}
    ]


async def test_a_sender_that_breaks_is_reported() -> None:
    class Broken:
        async def send(self, phone: str, code: str, expires_at: int) -> bool:
            raise RuntimeError("no")

    delivery = CodeDelivery(Broken())
    with structlog.testing.capture_logs() as logs:
        delivery.deliver("1", "12345", 99)
        await delivery.drain()
    assert [line["log_level"] for line in logs] == ["error"]
    assert "12345" not in str(logs[0]["event"])


async def test_close_ends_what_is_under_way() -> None:
    started = asyncio.Event()

    class Slow:
        async def send(self, phone: str, code: str, expires_at: int) -> bool:
            started.set()
            await asyncio.Event().wait()
            return True

    delivery = CodeDelivery(Slow())
    delivery.deliver("1", "12345", 99)
    await started.wait()
    await delivery.close()
