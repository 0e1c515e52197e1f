"""Tables on terminals: what is there to be copied is in one piece, however narrow they are."""

from __future__ import annotations

import pytest

from telesrv.admin.output import print_table, when

TITLES = ("account", "hash", "logged in")
ROWS = [
    (195894221419, "661a1b02bbe23316", when(1_800_000_000)),
    (188466479536, "4153c1a8d05a4d0e", "-"),
]


def test_times_name_their_zone() -> None:
    assert when(1_800_000_000) == "2027-01-15 08:00:00Z"
    assert when(0) == "-"


@pytest.mark.parametrize("width", range(1, 80))
def test_no_word_is_cut(capsys: pytest.CaptureFixture[str], width: int) -> None:
    print_table(TITLES, ROWS, width)
    text = capsys.readouterr().out
    for row in ROWS:
        for word in " ".join(map(str, row)).split():
            assert word in text
    table = "─" in text
    assert table == (width >= 12 + 16 + len("2027-01-15") + 3 * len(TITLES) + 1)
    if table:
        assert max(map(len, text.splitlines())) <= width


def test_rows_one_below_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(TITLES, ROWS, 30)
    assert capsys.readouterr().out == (
        "\n  account    195894221419\n  hash       661a1b02bbe23316\n  logged in  2027-01-15 08:00:00Z\n"
        "\n  account    188466479536\n  hash       4153c1a8d05a4d0e\n  logged in  -\n"
    )


def test_a_column_is_folded_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("state", "found"), [("ok", "words " * 30)], 40)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.count("words") for line in lines) == 30
