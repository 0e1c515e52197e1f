"""`telesrv-admin sessions`: the devices that are logged in, and logging them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from telesrv.admin import accounts
from telesrv.admin.output import Json, fail, group, print_json, print_table, when
from telesrv.admin.stores import with_store

if TYPE_CHECKING:
    from telesrv.store import Store
    from telesrv.store.operations import Device

app = group("The devices that are logged in to accounts.")

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_SIGN = 1 << 63


@app.command("list")
def list_(
    user: Annotated[
        str | None, typer.Option(help=f"Only the devices of this account: {accounts.HELP}.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many at most, the most recently active first.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """List devices, the most recently active first; HASH is what `sessions kill` takes.

    ASKED FROM is how far a device had the log of its account when it last asked what it missed; `users show`
    says how far the log goes. A device that is there is pushed what comes later, and need not ask.

    Exit code 1: there is no such account.

    \b
    Examples:
      telesrv-admin sessions list --user 5823910473
      telesrv-admin sessions list --user @anna
    """
    if user is not None:
        accounts.check_name(user)
    devices = with_store(lambda store: _devices(store, user, limit))
    if devices is None:
        _no_account(user, as_json)
    if as_json:
        print_json([plain(device) for device in devices])
    elif not devices:
        typer.echo("No device is logged in.")
    else:
        print_devices(devices)


@app.command()
def kill(
    hash: Annotated[str | None, typer.Argument(metavar="[HASH]", help="As `sessions list` shows it.")] = None,
    user: Annotated[str | None, typer.Option(help=f"Every device of this account: {accounts.HELP}.")] = None,
    as_json: Json = False,
) -> None:
    """Log a device out, or every device of an account.

    It is logged out for good and at once: its connections get nothing of the account any more, and it
    shows the log-in page. Messages stay. Exit code 1: there is no such device or account.

    \b
    Examples:
      telesrv-admin sessions kill 8c1f03b2a97d5e60
      telesrv-admin sessions kill --user 5823910473
    """
    if (hash is None) == (user is None):
        fail("give the HASH of a device, or --user and an account")
    if user is not None:
        accounts.check_name(user)
    number = None if hash is None else _number(hash)
    done = with_store(lambda store: _kill(store, number, user))
    if done is None:
        _no_account(user, as_json)
    killed, unheard = done
    if as_json:
        print_json([plain(device) for device in killed])
    elif killed:
        print_devices(killed)
        typer.echo(f"Logged out: {len(killed)}.")
    else:
        typer.echo("There is no such device.")
    if unheard:
        fail(
            f"the log-out is stored, but running processes could not be told ({unheard} does not answer): "
            "restart the server, or repeat this once it does"
        )
    raise typer.Exit(0 if killed else 1)


def hash_text(number: int) -> str:
    """Returns a device's hash as it is shown: 16 hexadecimal digits."""
    return f"{number & _MASK:016x}"


def plain(device: Device) -> dict[str, Any]:
    """Returns a device for JSON; the id of its key stays out."""
    return {
        "user_id": device.user_id,
        "hash": hash_text(device.hash),
        "device": device.device_model,
        "system": device.system_version,
        "app_version": device.app_version,
        "api_id": device.api_id,
        "layer": device.layer,
        "ip": device.ip,
        "created_at": device.created_at,
        "active_at": device.active_at,
        "asked_pts": device.asked_pts,
        "asked_at": device.asked_at,
    }


def print_devices(devices: list[Device]) -> None:
    """Prints devices as a table."""
    print_table(
        (
            "account",
            "hash",
            "device",
            "system",
            "app",
            "layer",
            "address",
            "logged in",
            "active",
            "asked from",
        ),
        [
            (
                device.user_id,
                hash_text(device.hash),
                device.device_model,
                device.system_version,
                f"{device.app_version} (api_id {device.api_id})",
                device.layer or "-",
                device.ip,
                when(device.created_at),
                when(device.active_at),
                "-" if device.asked_at is None else f"pts {device.asked_pts}, {when(device.asked_at)}",
            )
            for device in devices
        ],
    )


def _number(text: str) -> int:
    """Returns the signed number of a shown hash."""
    try:
        number = int(text, 16)
    except ValueError:
        number = -1
    if not 0 < number <= _MASK:
        fail(f"{text} is no hash of a device: see telesrv-admin sessions list")
    return number - (number & _SIGN) * 2


def _no_account(account: str | None, as_json: bool) -> NoReturn:
    typer.echo("[]" if as_json else f"There is no account {account}.")
    raise typer.Exit(1)


async def _devices(store: Store, account: str | None, limit: int) -> list[Device] | None:
    """Returns the devices, or None when there is no such account."""
    if account is None:
        return await store.operations.devices(limit=limit)
    found = await accounts.find(store, account)
    return None if found is None else await store.operations.devices(found.user_id, limit=limit)


async def _kill(store: Store, hash: int | None, account: str | None) -> tuple[list[Device], str] | None:
    """Returns the devices that were logged out, and which server kept the processes from hearing it; None
    when there is no such account."""
    from telesrv.domain.errors import Unavailable  # noqa: PLC0415

    user = None
    if account is not None:
        found = await accounts.find(store, account)
        if found is None:
            return None
        user = found.user_id
    devices = await store.operations.devices(user, hash, limit=100_000)
    removed: set[int] = set()
    if user is not None:
        removed.update(await store.accounts.reset_others(user, 0))  # 0 is nobody's key: all of them
    else:
        for device in devices:
            removed.update(await store.accounts.reset(device.user_id, device.hash))
    if removed:
        try:
            await store.operations.tell_logged_out(removed)
        except Unavailable as error:
            return [device for device in devices if device.auth_key_id in removed], str(error)
    return [device for device in devices if device.auth_key_id in removed], ""
