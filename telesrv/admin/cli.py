"""`telesrv-admin`: look into a server, put right what is wrong, and set clients up for it.

Every command finds the running embedded servers by TELESRV_DATA_DIR, or takes TELESRV_POSTGRES_DSN and
TELESRV_REDIS_URL. Exit codes: 0 done, 1 the answer is bad news, 2 it could not be asked. Modules of the
server are imported only by the commands that need them, so that help answers at once.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telesrv.admin import config_check, outbox, pts, sessions, users, workers
from telesrv.admin.output import Json, fail, group, print_json, print_table, when
from telesrv.admin.stores import public_key_path, settings_or_fail, with_store

if TYPE_CHECKING:
    from telesrv.config import Settings

app = group(
    """Look into a telesrv server, put right what is wrong, and set clients up for it.

    Run it where the server runs, with the same environment or .env, as the same user.

    \b
    Examples:
      telesrv-admin check-config           is everything ready for a start?
      telesrv-admin workers                who serves clients now
      telesrv-admin pts check              is any account's log missing an update?
      telesrv-admin users show +15550001   one account and its devices
      telesrv-admin outbox stats --json    for a script

    \b
    Exit codes: 0 done; 1 the answer is bad news; 2 it could not be asked.
    """
)
client_app = group("Write the files that point a client at this server.")
keys_app = group("The server's RSA key, which clients must know.")
app.add_typer(client_app, name="client")
app.add_typer(keys_app, name="keys")
app.add_typer(outbox.app, name="outbox")
app.add_typer(pts.app, name="pts")
app.add_typer(sessions.app, name="sessions")
app.add_typer(users.app, name="users")
app.command("workers")(workers.show)
app.command("check-config")(config_check.check)


@app.command()
def compat(as_json: Json = False) -> None:
    """Show the methods clients called that this server does not fully serve.

    One line for each method, layer and client, the most wanted first.
    """
    rows = with_store(lambda store: store.compat.table())
    if as_json:
        print_json([asdict(row) for row in rows])
    elif not rows:
        typer.echo("Every method that clients called is served.")
    else:
        print_table(
            ("method", "layer", "client", "calls", "last seen"),
            [(row.method, row.layer, row.client, row.count, when(row.last_seen_at)) for row in rows],
        )


@client_app.command("tdesktop")
def client_tdesktop(
    directory: Annotated[Path, typer.Argument(help="A new work directory for Telegram Desktop.")],
    host: Annotated[
        str | None, typer.Option(help="The IP address the client connects to, unless TELESRV_ADVERTISE_IP.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port, unless that of TELESRV_LISTEN.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Move a tdata that is there aside.")] = False,
) -> None:
    """Write a work directory that makes a stock Telegram Desktop use this server.

    \b
    Example:
      telesrv-admin client tdesktop ~/anna --host 192.0.2.10
      telegram-desktop -workdir ~/anna
    """
    from telesrv.admin.tdesktop import WorkDirectoryExists, write_work_directory  # noqa: PLC0415
    from telesrv.platform.address import maybe_noted_address  # noqa: PLC0415

    settings = settings_or_fail()
    noted = None if "listen" in settings.model_fields_set else maybe_noted_address(settings.data_dir)
    listen_host, listen_port = noted or (settings.listen.host, settings.listen.port)
    address, port = _ip_address(host or settings.advertise_ip or listen_host), port or listen_port
    try:
        write_work_directory(directory, address, port, _public_pem(settings), force=force)
    except WorkDirectoryExists as error:
        fail(f"{error}; give another directory, or --force to move what is there aside")
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{directory} cannot be written ({error.strerror})")
    typer.echo(
        f"Written for the server at {address}:{port}. Now: telegram-desktop -workdir {directory.absolute()}"
    )


@keys_app.command("show")
def keys_show(as_json: Json = False) -> None:
    """Print the public RSA key (PKCS#1 PEM) and its fingerprint."""
    from telesrv.mtproto.rsa import load_public_pem, public_fingerprint  # noqa: PLC0415

    settings = settings_or_fail()
    path, pem = public_key_path(settings), _public_pem(settings)
    try:
        fingerprint = f"{public_fingerprint(*load_public_pem(pem)) & 0xFFFF_FFFF_FFFF_FFFF:016x}"
    except ValueError as error:
        fail(f"{path}: {error}")
    if as_json:
        print_json({"path": str(path), "fingerprint": fingerprint, "pem": pem.decode()})
    else:
        typer.echo(f"{path}\nfingerprint {fingerprint}\n{pem.decode()}", nl=False)


def _ip_address(host: str) -> str:
    """Returns *host* as an address; the client's files hold no names."""
    import ipaddress  # noqa: PLC0415

    from telesrv.config import reachable_host  # noqa: PLC0415

    address = reachable_host(host)
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        fail(
            f"{host} is not an IP address: Telegram Desktop's files hold addresses only; "
            "give the server's as --host 192.0.2.10, or set TELESRV_ADVERTISE_IP"
        )


def _public_pem(settings: Settings) -> bytes:
    path = public_key_path(settings)
    try:
        return path.read_bytes()
    except OSError as error:
        fail(f"{path} cannot be read ({error.strerror})")


def main() -> None:
    """Runs `telesrv-admin`."""
    try:
        app()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
