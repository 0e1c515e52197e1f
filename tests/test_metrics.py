"""Numbers of several processes, added up; their processes come and go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from telesrv import metrics
from telesrv.store.metrics import StoreMetrics

WORKER = """
import os
from telesrv import metrics
store = metrics.StoreCounts()
store.message("sent", 3)
store.batch(5, 0.002)
metrics.CONNECTIONS.inc(7)
metrics.rpc("messages.sendMessage", "ok", 0.003)
metrics.rpc(None, "refused", 0.001)
print(os.getpid())
"""


def run_worker(directory: Path) -> int:
    """Runs a process that counts, to its end; returns its pid."""
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(directory)},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


def numbers(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of an exposition."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def read(directory: Path) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return numbers(metrics.exposition(directory)[0])


SENT = ("telesrv_messages_total", (("result", "sent"),))
CONNECTIONS = ("telesrv_connections", ())


def test_processes_are_added_up(tmp_path: Path) -> None:
    directory = metrics.fresh_directory(tmp_path)
    run_worker(directory)
    run_worker(directory)
    found = read(directory)
    assert found[SENT] == 6
    assert found[CONNECTIONS] == 14
    assert found["telesrv_commit_batch_size_bucket", (("le", "4.0"),)] == 0
    assert found["telesrv_commit_batch_size_bucket", (("le", "8.0"),)] == 2
    assert found["telesrv_commit_batch_size_sum", ()] == 10
    assert found["telesrv_rpc_total", (("method", "messages.sendMessage"), ("outcome", "ok"))] == 2
    assert found["telesrv_rpc_total", (("method", "other"), ("outcome", "refused"))] == 2


def test_a_dead_process_leaves_its_counts_and_no_connections(tmp_path: Path) -> None:
    directory = metrics.fresh_directory(tmp_path)
    pids = [run_worker(directory) for _ in range(3)]
    before = read(directory)
    for pid in pids[:2]:
        metrics.forget_process(directory, pid)
        metrics.forget_process(directory, pid)
    after = read(directory)
    assert after.pop(CONNECTIONS) == 7
    assert before.pop(CONNECTIONS) == 21
    assert after == before
    assert not [path for path in directory.iterdir() if path.stem.endswith(f"_{pids[0]}")]
    run_worker(directory)
    assert read(directory)[SENT] == 12


def test_a_file_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    directory = metrics.fresh_directory(tmp_path)
    pid = run_worker(directory)
    (directory / "counter_77.db").write_bytes(b"\xff\xff\0\0\0\0\0\0\xff\xff\xff\x7f" + b"\0" * 500)
    (directory / "histogram_77.db").write_bytes(b"")
    metrics.forget_process(directory, 77)
    assert read(directory)[SENT] == 3
    metrics.forget_process(directory, pid)
    assert read(directory)[SENT] == 3


def test_a_new_run_starts_from_nothing(tmp_path: Path) -> None:
    run_worker(metrics.fresh_directory(tmp_path))
    directory = metrics.fresh_directory(tmp_path)
    assert list(directory.iterdir()) == []
    assert read(directory) == {}


def test_the_counts_have_every_method_of_the_store() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(metrics.StoreCounts) == methods(StoreMetrics)


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0", "text/plain"])
def test_one_process_alone_shows_its_own(accept: str) -> None:
    before = metrics.RATE_LIMITED.labels("test")._value.get()
    metrics.StoreCounts().rate_limited("test")
    text, content_type = metrics.exposition(None, accept)
    assert f'telesrv_rate_limited_total{{kind="test"}} {before + 1}'.encode() in text
    assert ("openmetrics" in content_type) == ("openmetrics" in accept)
