"""How a report is shown."""

from __future__ import annotations

import io

from rich.console import Console

from loadtest.report import Level, Report, print_report


def printed(*levels: Level, missed: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    report = Report(levels={level.name: level for level in levels}, missed=list(missed))
    print_report(report, Console(file=out, width=160))
    return out.getvalue()


def test_columns_without_a_value_are_left_out() -> None:
    text = printed(Level("history", rates=[10.0], latencies_ms=[1.0, 2.0]), Level("edit", rates=[1234.0]))
    for title in ("a second", "p50 ms", "p99 ms"):
        assert title in text
    for title in ("floor", "1 tx each", "times", "batch", "backlog"):
        assert title not in text
    assert "1,234" in text
    assert text.index("history") < text.index("edit")


def test_a_column_stays_for_one_row_that_has_it() -> None:
    drain = Level("drain", rates=[8.0], floor_rates=[10.0], one_by_one_rates=[4.0], batches=[3], backlog=7)
    text = printed(Level("send", rates=[10.0]), drain)
    for title in ("floor", "of floor", "1 tx each", "times", "batch", "backlog"):
        assert title in text
    for value in ("0.80", "2.0"):
        assert value in text


def test_what_was_missed_stands_below() -> None:
    assert "missed: p99 9 ms, not 5" in printed(missed=("p99 9 ms, not 5",))
