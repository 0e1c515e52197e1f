"""The log as a program reads it, of this project's lines and of libraries'."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
import structlog

from telesrv.logs import Seldom
from tests.support.waiting import until

SCRIPT = """
import logging, structlog
from telesrv.logs import configure_logging
configure_logging(json={json}, pid={pid})
log = structlog.get_logger("x")
log.info("started", port=5, secret=b"k")
log.debug("not this")
log.warning("odd", worker=3)
try:
    key = "hid" + "den"
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
    logging.getLogger("asyncio").exception("a library's %s", "word")
    logging.getLogger("asyncpg.pool").warning("it is %s", "away", exc_info=True)
logging.getLogger("asyncio").info("nor this")
"""


def lines(json_form: bool, pid: int | None = None) -> list[str]:
    """What a process logs."""
    script = SCRIPT.replace("{json}", str(json_form)).replace("{pid}", str(pid))
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_every_line_is_one_json_object() -> None:
    found: list[dict[str, Any]] = [json.loads(line) for line in lines(True)]
    assert [(line["event"], line["level"]) for line in found] == [
        ("started", "info"),
        ("odd", "warning"),
        ("failed", "error"),
        ("a library's word", "error"),
        ("it is away (ZeroDivisionError('division by zero'))", "warning"),
    ]
    assert all(line["timestamp"].endswith("Z") for line in found)
    assert found[0]["port"] == 5
    assert found[1]["worker"] == 3
    assert "ZeroDivisionError" in found[2]["exception"]
    assert found[3]["logger"] == "asyncio"
    assert "ZeroDivisionError" in found[3]["exception"]
    assert "exception" not in found[4]
    assert not any("pid" in line for line in found)


def test_every_line_of_one_of_many_processes_tells_which() -> None:
    assert {json.loads(line)["pid"] for line in lines(True, 17)} == {17}
    assert all("pid=17" in line for line in lines(False, 17) if "[" in line)


@pytest.mark.parametrize("word", ["started", "odd", "a library's word", "worker=3"])
def test_lines_for_people(word: str) -> None:
    text = "\n".join(lines(False))
    assert word in text
    assert "ZeroDivisionError" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("json_form", [True, False])
def test_tracebacks_hold_no_values(json_form: bool) -> None:
    assert "hidden" not in "\n".join(lines(json_form))


async def test_a_flood_is_told_by_few_lines_that_count_it_all() -> None:
    log = structlog.get_logger("flood")
    seldom = Seldom(log, logging.WARNING, "too many", interval_s=0.01)
    told = 0
    with structlog.testing.capture_logs() as lines:
        for burst in (1, 1000, 1, 50):
            for number in range(burst):
                seldom.tell(number=number)
            told += burst
            await until(lambda: sum(line["count"] for line in lines) == told, "all to be told")  # noqa: B023
    assert [line["count"] for line in lines][:2] == [1, 1000]
    assert len(lines) <= 2 * 4
    assert lines[1] == {"event": "too many", "log_level": "warning", "number": 999, "count": 1000}


async def test_a_line_is_written_at_once_when_it_is_the_first_for_a_while() -> None:
    seldom = Seldom(structlog.get_logger("flood"), logging.INFO, "odd", interval_s=3600.0)
    with structlog.testing.capture_logs() as lines:
        seldom.tell(ip="a")
        assert len(lines) == 1
        seldom.tell(ip="b")
    assert lines == [{"event": "odd", "log_level": "info", "ip": "a", "count": 1}]
