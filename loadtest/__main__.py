"""`python -m loadtest COMMAND`: measurements, each its own module, loaded only when it is asked for."""

from __future__ import annotations

import time

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Measures telesrv.",
)


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


@app.command()
def store(
    scenario: str = typer.Option("sends", help="What is done: sends, mixed, or search."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON for programs instead of a table."),
) -> None:
    """The message store beside its floor, on scratch servers of its own.

    mixed: what clients do all day, while pushes go out; of a hundred steps 60 send, 20 read a page of
    history, 10 mark a chat read, 5 ask for the difference, 3 edit and 2 delete.

    \b
    Settings, as environment variables:
      TELESRV_LOAD_USERS=1000           accounts that write to each other
      TELESRV_LOAD_CONCURRENCY=32,256   clients at once; each level is measured
      TELESRV_LOAD_MESSAGES=5000        a round
      TELESRV_LOAD_ROUNDS=3             medians are taken
      TELESRV_LOAD_PARTITIONS=16        of each large table
      TELESRV_LOAD_SEED=1               what is done by chance is done alike with one seed
      TELESRV_LOAD_POOL_CONNS=50        connections to PostgreSQL
      TELESRV_POSTGRES_AT_ONCE          how many of them work at once; 4 for each core
      TELESRV_LOAD_DEFER_DISPATCH=1     fill, then drain only; nothing is pushed while sending
      TELESRV_LOAD_ENFORCE_SLO=1        exit code 2 when an aim is missed
      TELESRV_LOAD_POSTGRES_DSN, _REDIS_URL   servers to use; a database of its own is made there
      TELESRV_OUTBOX_BATCH=100, TELESRV_OUTBOX_WORKERS=2

    \b
    Below the table:
      wrong: ...    an error, something lost or doubled; exit code 1
      missed: ...   an aim (SLO) was not reached: what was measured,
                    and behind "not" or "aim" what was aimed at.
                    It is no error: set the aims to what you need:
      TELESRV_LOAD_SLO_MESSAGES_PER_S=200      sends a second, at least
      TELESRV_LOAD_SLO_SEND_P99_MS=150         99 of 100 sends, at most
      TELESRV_LOAD_SLO_DIFFERENCE_P99_MS=100   99 of 100 differences
      The shares of the floor, the times of one transaction a message
      and the cost of the search index have fixed aims.
    """
    from loadtest.store import SCENARIOS, run  # noqa: PLC0415 - a command loads only what it needs

    if scenario not in SCENARIOS:
        raise typer.BadParameter(f"choose one of: {', '.join(SCENARIOS)}", param_hint="--scenario")
    raise typer.Exit(run(scenario=scenario, as_json=as_json))


@app.command()
def soak(
    minutes: float = typer.Option(30, min=0, help="No fault begins later than this."),
    seed: int = typer.Option(0, help="Decides the order of the faults and their victims; 0: by the clock."),
    only: str = typer.Option("", help="Only faults whose name contains this."),
) -> None:
    """Break workers, Valkey, PostgreSQL and the link to it under load of real clients.

    Exit code 0: nothing was lost; 1: something was, and all is left in place; 2: no such fault.
    """
    from loadtest.soak import run  # noqa: PLC0415

    raise typer.Exit(run(minutes=minutes, seed=seed or int(time.time()) % 1_000_000, only=only))


if __name__ == "__main__":
    app()
