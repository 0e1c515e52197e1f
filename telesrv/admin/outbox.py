"""`telesrv-admin outbox`: the pushes that are owed to devices, and those that were given up."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from telesrv.admin.output import Json, group, print_json, print_table, span
from telesrv.admin.stores import with_store

app = group(
    """The pushes owed to devices.

    What is pushed is in the accounts' logs whatever becomes of the push: a device that got none has it from
    the log at its next connection. A push that fails is tried again, later each time, and given up at last.
    """
)


@app.command()
def stats(as_json: Json = False) -> None:
    """Show how many pushes are owed, under way and given up, and how old the oldest is.

    Owed pushes of more than a few seconds' age mean that the workers do not keep up or do not run:
    see telesrv-admin workers.
    """
    found = with_store(lambda store: store.outbox.stats())
    oldest_s = max(0.0, time.time() - found.oldest_ms / 1000) if found.oldest_ms else 0.0
    if as_json:
        print_json(
            {
                "waiting": found.waiting,
                "leased": found.leased,
                "failed": found.failed,
                "oldest_s": round(oldest_s, 3),
            }
        )
        return
    print_table(
        ("waiting", "under way", "given up", "oldest"),
        [(found.waiting, found.leased, found.failed, span(oldest_s) if found.oldest_ms else "-")],
    )
    if found.failed:
        typer.echo("What was given up, and why: telesrv-admin outbox failed")


@app.command()
def failed(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most, the latest first.")] = 100,
    as_json: Json = False,
) -> None:
    """List the pushes that were given up, and why, the latest first."""
    rows = with_store(lambda store: store.outbox.failed(limit))
    if as_json:
        print_json([row._asdict() for row in rows])
    elif not rows:
        typer.echo("No push was given up.")
    else:
        print_table(
            ("account", "pts", "attempts", "why"),
            [(row.target_user_id, row.pts, row.attempts, row.last_error or "") for row in rows],
        )
        typer.echo("When the cause is gone: telesrv-admin outbox retry")


@app.command()
def retry(as_json: Json = False) -> None:
    """Owe every push that was given up again, as if it were new.

    Devices that have read the log meanwhile know the update and drop the push.
    """
    count = with_store(lambda store: store.outbox.requeue_failed())
    if as_json:
        print_json({"retried": count})
    else:
        typer.echo(f"{count} pushes are owed again." if count else "No push was given up; nothing to do.")
