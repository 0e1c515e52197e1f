"""Metrics and health over HTTP, for monitoring systems and load balancers.

    GET /metrics   the numbers of all processes, in the format of Prometheus
    GET /healthz   200: this process lives; it touches nothing
    GET /readyz    200: PostgreSQL answers a read of a table and takes writes, Redis takes a write, and the
                   workers accept; else 503, and the body says which one does not

Guarantees: every answer comes within a few seconds, whatever the stores do (`platform/probes.py`); requests,
their size and their number at once are bounded; no answer holds an address, a key or a query. Concurrency:
one event loop. Lifecycle: an async context manager.

One request a connection: a scraper comes every few seconds, and a connection that is always closed needs no
other bound.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import h11
import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from telesrv import metrics
from telesrv.platform.probes import Probes

log = structlog.get_logger(__name__)

MAX_CONNECTIONS: Final = 32
"""A monitoring system or two and a load balancer; more are closed at once."""
MAX_REQUEST: Final = 8 * 1024
"""Bytes of a request's head."""
REQUEST_S: Final = 10.0
"""From connecting to the last byte of the answer."""


class ListenAddress(Protocol):
    """A host and a port, as `telesrv.config.Address` has them."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Readiness:
    """What each check found: "ok", or in a few words what is wrong."""

    checks: dict[str, str]

    @property
    def ready(self) -> bool:
        return all(found == "ok" for found in self.checks.values())


class HealthServer:
    """Serves metrics and health while its context lasts.

    Args:
        address: where to listen; None to serve nothing.
        postgres_dsn, redis_url: the servers that readiness touches.
        multiproc_dir: from `metrics.fresh_directory`; None for the numbers of this process alone.
        workers_ready: tells whether the workers accept clients now.
        redis_prefix: of the one key that is written.
        timeout_s: how long a check waits for a store.
    """

    def __init__(
        self,
        address: ListenAddress | None,
        postgres_dsn: str,
        redis_url: str,
        multiproc_dir: Path | None,
        workers_ready: Callable[[], bool],
        *,
        redis_prefix: str = "telesrv:",
        timeout_s: float = 2.0,
    ) -> None:
        self._address = address
        self._probes = Probes(postgres_dsn, redis_url, redis_prefix=redis_prefix, timeout_s=timeout_s)
        self._directory = multiproc_dir
        self._workers_ready = workers_ready
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._was_ready = True

    async def __aenter__(self) -> HealthServer:
        """Listens.

        Raises:
            OSError: the address cannot be listened on.
        """
        if self._address is not None:
            try:
                self._server = await asyncio.start_server(
                    self._accept, self._address.host, self._address.port, limit=2 * MAX_REQUEST
                )
            except OSError as error:
                raise OSError(
                    error.errno, f"TELESRV_METRICS_LISTEN={self._address}: {error.strerror or error}"
                ) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops listening and ends what is under way."""
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """The port that is listened on; 0 when none is."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    async def readiness(self) -> Readiness:
        """Returns what the checks found, at most a second ago."""
        stores = await self._probes.usable()
        workers = "ok" if self._workers_ready() else "not all accept clients"
        readiness = Readiness({**stores, "workers": workers})
        if readiness.ready != self._was_ready:
            self._was_ready = readiness.ready
            (log.info if readiness.ready else log.warning)("readiness changed", **readiness.checks)
        return readiness

    async def _backlog(self) -> list[Metric]:
        backlog = await self._probes.backlog()
        if backlog is None:
            return []
        return [
            GaugeMetricFamily("telesrv_outbox_waiting_rows", "Pushes owed.", value=backlog.waiting),
            GaugeMetricFamily("telesrv_outbox_leased_rows", "Pushes under way.", value=backlog.leased),
            GaugeMetricFamily("telesrv_outbox_failed_rows", "Pushes given up.", value=backlog.failed),
            GaugeMetricFamily(
                "telesrv_outbox_oldest_seconds", "Age of the oldest push owed.", value=backlog.oldest_s
            ),
        ]

    # Pages

    async def _page(self, path: str, accept: str) -> tuple[int, bytes, str]:
        """Returns status, body and content type."""
        if path == "/healthz":
            return 200, b"ok\n", "text/plain; charset=utf-8"
        if path == "/readyz":
            readiness = await self.readiness()
            body = json.dumps({"ready": readiness.ready, **readiness.checks}) + "\n"
            return 200 if readiness.ready else 503, body.encode(), "application/json"
        if path == "/metrics":
            readiness, backlog = await asyncio.gather(self.readiness(), self._backlog())
            ready = GaugeMetricFamily("telesrv_ready", "1: the check found no fault.", labels=["check"])
            for check, found in readiness.checks.items():
                ready.add_metric([check], found == "ok")
            numbers, content_type = await asyncio.to_thread(
                metrics.exposition, self._directory, accept, [ready, *backlog]
            )
            return 200, numbers, content_type
        return 404, b"/metrics, /healthz and /readyz are here\n", "text/plain; charset=utf-8"

    # HTTP

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        machine = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST)
        head_only = False
        try:
            async with asyncio.timeout(REQUEST_S):
                try:
                    request = await _read_request(machine, reader)
                    if request is None:
                        return
                    status, body, headers = await self._answer(request)
                    head_only = request.method == b"HEAD"
                except h11.RemoteProtocolError as error:
                    status, body, headers = error.error_status_hint, b"that is not HTTP\n", []
                if machine.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    writer.write(_response(machine, status, body, headers, head_only))
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (TimeoutError, OSError):
            pass
        except Exception:
            log.exception("a request for metrics or health failed")
        finally:
            writer.transport.abort()

    async def _answer(self, request: h11.Request) -> tuple[int, bytes, list[tuple[str, str]]]:
        if request.method not in (b"GET", b"HEAD"):
            return 405, b"", [("Allow", "GET, HEAD")]
        headers = dict(request.headers)
        accept = headers.get(b"accept", b"").decode("latin-1")
        path = request.target.decode("latin-1").partition("?")[0]
        status, body, content_type = await self._page(path, accept)
        return status, body, [("Content-Type", content_type), ("Cache-Control", "no-store")]


async def _read_request(machine: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Returns the request's head, None when the peer left; its body, if any, is not waited for.

    Raises:
        h11.RemoteProtocolError: it is no HTTP request, or too long.
    """
    while True:
        event = machine.next_event()
        if event is h11.NEED_DATA:
            machine.receive_data(await reader.read(MAX_REQUEST))
        elif isinstance(event, h11.Request):
            return event
        else:
            return None


def _response(
    machine: h11.Connection,
    status: int,
    body: bytes,
    headers: Sequence[tuple[str, str]],
    head_only: bool,
) -> bytes:
    """Returns the bytes of a response after which the connection is closed."""
    head = h11.Response(
        status_code=status,
        headers=[*headers, ("Content-Length", str(len(body))), ("Connection", "close")],
    )
    data = h11.Data(data=b"" if head_only else body)
    parts = [machine.send(head), machine.send(data), machine.send(h11.EndOfMessage())]
    return b"".join(part for part in parts if part)
