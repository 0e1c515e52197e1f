"""`python -m loadtest COMMAND`: measurements, each its own module, loaded only when it is asked for."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measures telesrv.")


@app.callback()
def main() -> None:
    """Measures telesrv."""


@app.command()
def codec(
    repeat: int = typer.Option(50, min=1, help="Runs of each measurement; the best one counts."),
    number: int = typer.Option(300, min=1, help="Operations in a run."),
) -> None:
    """Nanoseconds to encode and decode a message and its update, beside Telethon's."""
    from loadtest.codec import run  # noqa: PLC0415 - a command loads only what it needs

    run(repeat=repeat, number=number)


if __name__ == "__main__":
    app()
