"""`telesrv-admin workers`: the processes that serve clients now, on every machine."""

from __future__ import annotations

import time
from dataclasses import asdict

import typer

from telesrv.admin.output import Json, print_json, print_table, span
from telesrv.admin.stores import with_store


def show(as_json: Json = False) -> None:
    """Show the processes that serve clients now, on every machine.

    Each holds a node number by a lease that it renews every few seconds; one that died is listed until its
    lease ends. Exit code 1: none serves.
    """
    nodes = with_store(lambda store: store.nodes.list())
    if as_json:
        print_json([asdict(node) for node in nodes])
    elif nodes:
        now = time.time()
        print_table(
            ("node", "machine", "pid", "connections", "sessions", "running for"),
            [
                (
                    node.node,
                    node.host,
                    node.pid,
                    node.connections,
                    node.sessions,
                    span(now - node.started_at_ms / 1000),
                )
                for node in nodes
            ],
        )
    else:
        typer.echo("No process serves clients: start the server (make run), or look into its log.")
    raise typer.Exit(0 if nodes else 1)
