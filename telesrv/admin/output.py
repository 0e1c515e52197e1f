"""What commands print: tables for people, JSON for programs, one line when they fail."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]


def group(help: str) -> typer.Typer:
    """Returns an empty group of commands; without commands it prints its help."""
    return typer.Typer(
        help=help,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def print_json(value: object) -> None:
    """Prints *value* as one line of JSON."""
    typer.echo(json.dumps(value))


def print_table(
    titles: Sequence[str], rows: Sequence[Sequence[Any]], terminal_width: int | None = None
) -> None:
    """Prints a table, or its rows one below the other where words would have to be cut to make it fit.

    A hash is there to be copied, so cells are folded between words only. *terminal_width* is in characters,
    that of the terminal when None; into a pipe a table is as wide as its cells need.
    """
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if terminal_width is None:
        terminal_width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000
    cells = [tuple(map(str, row)) for row in rows]
    widths = _maybe_widths((titles, *cells), terminal_width - 3 * len(titles) - 1)
    if widths is None:
        _print_rows(titles, cells)
        return
    table = Table(box=box.SIMPLE_HEAD)
    for title, width in zip(titles, widths, strict=True):
        table.add_column(title, width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    Console(width=terminal_width).print(table)


def _maybe_widths(lines: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Returns the widths of columns that have *room* together, or None when a word would have to be cut.

    What can be folded most is folded first.
    """
    from rich.cells import cell_len  # noqa: PLC0415

    columns = list(zip(*lines, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    words = [
        max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in columns
    ]
    while sum(widths) > room:
        spare, column = max((width - words[i], i) for i, width in enumerate(widths))
        if not spare:
            return None
        widths[column] -= 1
    return widths


def _print_rows(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints each row as lines of a title and a cell, after an empty line."""
    width = max(map(len, titles))
    for row in rows:
        typer.echo("")
        for title, cell in zip(titles, row, strict=True):
            typer.echo(f"  {title:{width}}  {cell}".rstrip())


def when(unix_s: float) -> str:
    """Returns a moment in UTC, as its Z says, or a dash for one that never was."""
    from datetime import UTC, datetime  # noqa: PLC0415

    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if unix_s else "-"


def span(seconds: float) -> str:
    """Returns a time span in its two largest units."""
    parts: list[str] = []
    rest = max(0, int(seconds))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def fail(text: str) -> NoReturn:
    """Ends the command with exit code 2: what was asked could not be found out or done."""
    print(f"telesrv-admin: {text}", file=sys.stderr)
    raise typer.Exit(2)
