"""What commands print: tables for people, JSON for programs, one line when they fail."""

from __future__ import annotations

import json
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


def print_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table; into a pipe it is as wide as its cells need."""
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else 1000).print(table)


def when(unix_s: float) -> str:
    """Returns a moment in UTC, or a dash for one that never was."""
    from datetime import UTC, datetime  # noqa: PLC0415

    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S") if unix_s else "-"


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
