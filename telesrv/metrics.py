"""What the server counts, in the format of Prometheus, over all processes of one machine.

Guarantees: counting never waits and never fails a request; labels have a bounded set of values; a counter
does not fall when a worker dies or is replaced, and what a dead worker held (its connections) is not
counted any more.

With PROMETHEUS_MULTIPROC_DIR in a process's environment before this module is imported, its numbers are in
files of that directory, which `exposition` adds up; without it they are the process's own. The supervisor
makes the directory (`fresh_directory`) before it starts workers and calls `forget_process` for each that
ended. A leaf: any layer that is not pure may import it.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

REGISTRY: Final = CollectorRegistry()
"""The metrics of this module, and nothing about the interpreter."""
DIRECTORY_NAME: Final = "metrics"
OTHER: Final = "other"
"""The label of every method that is not served."""

_FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

MESSAGES: Final = Counter("telesrv_messages", "Sends by what became of them.", ["result"], registry=REGISTRY)
RATE_LIMITED: Final = Counter(
    "telesrv_rate_limited",
    "Requests refused because too many of their kind came.",
    ["kind"],
    registry=REGISTRY,
)
BATCH_SIZE: Final = Histogram(
    "telesrv_commit_batch_size", "Messages written by one commit.", buckets=_SIZES, registry=REGISTRY
)
BATCH_SECONDS: Final = Histogram(
    "telesrv_commit_seconds", "Time to write one batch of messages.", buckets=_FAST, registry=REGISTRY
)
POOL_WAIT_SECONDS: Final = Histogram(
    "telesrv_pool_wait_seconds", "Wait for a connection to PostgreSQL.", buckets=_FAST, registry=REGISTRY
)
STORE_AWAY: Final = Counter(
    "telesrv_store_away", "Requests given up because a server did not answer.", ["server"], registry=REGISTRY
)
PTS_HOLES: Final = Counter(
    "telesrv_pts_holes", "Holes that readers met in a log of updates.", registry=REGISTRY
)
PTS_NOOPS: Final = Counter(
    "telesrv_pts_noops", "Reserved pts that were filled because nobody used them.", registry=REGISTRY
)
PTS_NOOPS_FAILED: Final = Counter(
    "telesrv_pts_noops_failed", "Reserved pts that could not be filled at once.", registry=REGISTRY
)
OUTBOX_CLAIMED: Final = Counter("telesrv_outbox_claimed", "Owed pushes claimed.", registry=REGISTRY)
OUTBOX_DELIVERED: Final = Counter("telesrv_outbox_delivered", "Owed pushes delivered.", registry=REGISTRY)
OUTBOX_RETRIED: Final = Counter("telesrv_outbox_retried", "Pushes to be tried again.", registry=REGISTRY)
OUTBOX_FAILED: Final = Counter("telesrv_outbox_failed", "Pushes that failed for good.", registry=REGISTRY)
CONNECTIONS: Final = Gauge(
    "telesrv_connections", "Client connections.", registry=REGISTRY, multiprocess_mode="livesum"
)
SESSIONS: Final = Gauge(
    "telesrv_sessions", "Sessions kept, connected or not.", registry=REGISTRY, multiprocess_mode="livesum"
)
RPC: Final = Counter(
    "telesrv_rpc", "Calls by method and what became of them.", ["method", "outcome"], registry=REGISTRY
)
RPC_SECONDS: Final = Histogram(
    "telesrv_rpc_seconds", "Time to answer a call.", ["method"], buckets=_FAST, registry=REGISTRY
)

_UNREADABLE: Final = (RuntimeError, ValueError, OSError, struct.error)
"""What a file gives that a process is just making, or that a crash has left half written."""
_LOOKS: Final = 5

_files: Final = threading.Lock()
"""Held while the files of a directory are read or moved together."""


class StoreCounts:
    """Counts what the store tells; has the methods of `telesrv.store.metrics.StoreMetrics`."""

    def message(self, result: str, count: int = 1) -> None:
        MESSAGES.labels(result).inc(count)

    def rate_limited(self, kind: str) -> None:
        RATE_LIMITED.labels(kind).inc()

    def batch(self, size: int, seconds: float) -> None:
        BATCH_SIZE.observe(size)
        BATCH_SECONDS.observe(seconds)

    def pool_wait(self, seconds: float) -> None:
        POOL_WAIT_SECONDS.observe(seconds)

    def away(self, server: str) -> None:
        STORE_AWAY.labels(server).inc()

    def hole(self) -> None:
        PTS_HOLES.inc()

    def noops(self, count: int) -> None:
        PTS_NOOPS.inc(count)

    def noops_failed(self, count: int) -> None:
        PTS_NOOPS_FAILED.inc(count)

    def outbox_claimed(self, count: int) -> None:
        OUTBOX_CLAIMED.inc(count)

    def outbox_delivered(self, count: int) -> None:
        OUTBOX_DELIVERED.inc(count)

    def outbox_retried(self, count: int) -> None:
        OUTBOX_RETRIED.inc(count)

    def outbox_failed(self, count: int) -> None:
        OUTBOX_FAILED.inc(count)


def rpc(method: str | None, outcome: str, seconds: float) -> None:
    """Counts one call.

    Args:
        method: the name of a method that is served; None for any other, so that clients cannot make labels.
        outcome: ok, refused, limited, unavailable or failed.
        seconds: from its arrival to its answer.
    """
    name = method or OTHER
    RPC.labels(name, outcome).inc()
    RPC_SECONDS.labels(name).observe(seconds)


def fresh_directory(data_dir: Path) -> Path:
    """Returns an empty directory for the numbers of this run's processes.

    Raises:
        OSError: it cannot be made.
    """
    directory = data_dir.absolute() / DIRECTORY_NAME
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def forget_process(directory: Path, pid: int) -> None:
    """Adds what a process that has ended had counted to one file for all of them, and drops what it held.

    Blocks for a moment on files; what a crash left half written is lost.
    """
    with _files:
        for kind in ("counter", "histogram"):
            left = directory / f"{kind}_{pid}.db"
            if left.exists():
                with contextlib.suppress(*_UNREADABLE):
                    _add(left, directory / f"{kind}_0.db")
                left.unlink(missing_ok=True)
        mark_process_dead(pid, str(directory))  # type: ignore[no-untyped-call]


class _Collected:
    """Numbers as a registry wants them: those of some processes, and some more."""

    def __init__(self, directory: Path | None, more: Sequence[Metric]) -> None:
        self._directory = directory
        self._more = more

    def collect(self) -> Iterator[Metric]:
        if self._directory is None:
            yield from REGISTRY.collect()
        else:
            yield from MultiProcessCollector(None, str(self._directory)).collect()  # type: ignore[no-untyped-call]
        yield from self._more


def exposition(directory: Path | None, accept: str = "", more: Sequence[Metric] = ()) -> tuple[bytes, str]:
    """Returns the numbers of all processes, and their content type.

    Blocks while it reads files, so it is run in a thread.

    Args:
        directory: from `fresh_directory`; None for those of this process alone.
        accept: the HTTP header of that name, which chooses the format.
        more: what is not counted by any process.
    """
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(directory, more))
    with _files:
        for _ in range(_LOOKS - 1):
            with contextlib.suppress(*_UNREADABLE):
                return encode(registry), content_type
            time.sleep(0.01)
        return encode(registry), content_type


def _add(source: Path, total: Path) -> None:
    sums = MmapedDict(str(total))  # type: ignore[no-untyped-call]
    try:
        for key, value, timestamp, _ in MmapedDict.read_all_values_from_file(str(source)):  # type: ignore[no-untyped-call]
            before, _ = sums.read_value(key)  # type: ignore[no-untyped-call]
            sums.write_value(key, before + value, timestamp)  # type: ignore[no-untyped-call]
    finally:
        sums.close()  # type: ignore[no-untyped-call]
