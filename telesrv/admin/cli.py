"""`telesrv-admin`: look into a server and set clients up for it.

Every command finds the running embedded servers by TELESRV_DATA_DIR, or takes TELESRV_POSTGRES_DSN and
TELESRV_REDIS_URL. Exit codes: 0 done, 1 the answer is bad news, 2 it could not be asked.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from telesrv.config import Settings
    from telesrv.store import Store

ResultT = TypeVar("ResultT")

app = typer.Typer(
    name="telesrv-admin",
    help="Look into a telesrv server and set clients up for it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
client_app = typer.Typer(help="Write the files that point a client at this server.", no_args_is_help=True)
keys_app = typer.Typer(help="The server's RSA key, which clients must know.", no_args_is_help=True)
pts_app = typer.Typer(help="The update logs of the accounts.", no_args_is_help=True)
app.add_typer(client_app, name="client")
app.add_typer(keys_app, name="keys")
app.add_typer(pts_app, name="pts")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]


@app.command()
def compat(as_json: Json = False) -> None:
    """Show the methods clients called that this server does not fully serve.

    One line for each method, layer and client, the most wanted first.
    """
    rows = _with_store(lambda store: store.compat.table())
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows]))
        return
    if not rows:
        typer.echo("Every method that clients called is served.")
        return
    _table(
        ("method", "layer", "client", "calls", "last seen"),
        [(row.method, row.layer, row.client, row.count, _when(row.last_seen_at)) for row in rows],
    )


@client_app.command("tdesktop")
def client_tdesktop(
    directory: Annotated[Path, typer.Argument(help="A new work directory for Telegram Desktop.")],
    host: Annotated[
        str | None, typer.Option(help="The IP address the client connects to, unless TELESRV_ADVERTISE_IP.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port, unless that of TELESRV_LISTEN.")] = None,
    force: Annotated[bool, typer.Option(help="Overwrite a work directory that is in use.")] = False,
) -> None:
    """Write a work directory that makes a stock Telegram Desktop use this server.

    Then start it with: telegram-desktop -workdir DIRECTORY
    """
    from telesrv.admin.tdesktop import WorkDirectoryExists, write_work_directory  # noqa: PLC0415

    settings = _settings()
    address = host or settings.advertise_ip or _reachable(settings.listen.host)
    try:
        write_work_directory(
            directory, address, port or settings.listen.port, _public_key(settings).read_bytes(), force=force
        )
    except WorkDirectoryExists as error:
        _fail(f"{error}; give another directory, or --force to overwrite it")
    typer.echo(f"Written. Now: telegram-desktop -workdir {directory.absolute()}")


@keys_app.command("show")
def keys_show(as_json: Json = False) -> None:
    """Print the public RSA key (PKCS#1 PEM) and its fingerprint."""
    from telesrv.mtproto.rsa import load_public_pem, public_fingerprint  # noqa: PLC0415

    path = _public_key(_settings())
    pem = path.read_bytes()
    fingerprint = public_fingerprint(*load_public_pem(pem)) & 0xFFFFFFFFFFFFFFFF
    if as_json:
        typer.echo(json.dumps({"path": str(path), "fingerprint": f"{fingerprint:016x}", "pem": pem.decode()}))
        return
    typer.echo(f"{path}\nfingerprint {fingerprint:016x}\n{pem.decode()}", nl=False)


@pts_app.command("check")
def pts_check(
    user: Annotated[int | None, typer.Option(help="Only this account.")] = None,
    settle: Annotated[
        float, typer.Option(help="Look again for this many seconds before a hole counts as a gap.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Look for missing pts below a committed one.

    Exit code 0: none; 1: there are gaps; 2: could not check.
    """

    async def check(store: Store) -> tuple[int, list[Any]]:
        waited = 0.0
        while True:
            users, gaps = await store.gaps.find(user)
            if not gaps or waited >= settle:
                return users, gaps
            step = min(0.25, settle - waited)
            await asyncio.sleep(step)
            waited += step

    users, gaps = _with_store(check)
    found = [{"user_id": gap.user_id, "from_pts": gap.from_pts, "to_pts": gap.to_pts} for gap in gaps]
    if as_json:
        typer.echo(json.dumps({"users": users, "gaps": found}))
    elif found:
        _table(("account", "from pts", "to pts"), [tuple(gap.values()) for gap in found])
    else:
        typer.echo(f"{users} accounts, no gap.")
    raise typer.Exit(1 if found else 0)


def _settings() -> Settings:
    from telesrv.config import ConfigError, load_settings  # noqa: PLC0415

    try:
        return load_settings()
    except ConfigError as error:
        _fail(str(error))


def _public_key(settings: Settings) -> Path:
    path = settings.data_dir / "server_rsa.pub.pem"
    if not path.exists():
        _fail(f"{path} is not there: start the server once (make run), or point TELESRV_DATA_DIR at its data")
    return path


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104


def _with_store(work: Callable[[Store], Awaitable[ResultT]]) -> ResultT:
    """Runs *work* with a store on the running servers; a friendly line and exit code 2 when there are
    none."""
    from telesrv.clock import SystemClock  # noqa: PLC0415
    from telesrv.domain.errors import Unavailable  # noqa: PLC0415
    from telesrv.platform import discover  # noqa: PLC0415
    from telesrv.store import Store, StoreConfig  # noqa: PLC0415

    settings = _settings()
    dsn, url = settings.postgres_dsn, settings.redis_url
    found = discover(settings.data_dir)
    postgres_dsn = dsn.get_secret_value() if dsn else found.postgres_dsn if found else ""
    redis_url = url.get_secret_value() if url else found.redis_url if found else ""
    if not postgres_dsn or not redis_url:
        _fail(
            f"no server is running on {settings.data_dir}: start it (make run), or set TELESRV_DATA_DIR, or "
            "TELESRV_POSTGRES_DSN and TELESRV_REDIS_URL"
        )

    async def run() -> ResultT:
        store = await Store.open(
            StoreConfig(
                postgres_dsn=postgres_dsn, redis_url=redis_url, clock=SystemClock(), min_conns=1, max_conns=2
            )
        )
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except (Unavailable, OSError) as error:
        _fail(f"the stores do not answer ({error}); is the server running?")


def _table(titles: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(*titles)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table)


def _when(unix_s: int) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _fail(text: str) -> NoReturn:
    print(f"telesrv-admin: {text}", file=sys.stderr)
    raise typer.Exit(2)


def main() -> None:
    """Runs `telesrv-admin`."""
    app()
