"""`telesrv-admin users`: the accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from telesrv.admin.accounts import check_name, find
from telesrv.admin.output import Json, group, print_json, print_table, when
from telesrv.admin.sessions import plain as plain_device
from telesrv.admin.sessions import print_devices
from telesrv.admin.stores import with_store
from telesrv.domain.users import Presence

if TYPE_CHECKING:
    from telesrv.domain.users import User
    from telesrv.store import Store
    from telesrv.store.operations import Device, Footprint

app = group("The accounts.")

_PAGE = 1_000
"""Of how many accounts the presence is asked for at once."""


@app.command("list")
def list_(
    search: Annotated[str, typer.Argument(help="Part of a name, a username or a phone number.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most.")] = 100,
    after: Annotated[int, typer.Option(help="Go on behind this account.")] = 0,
    as_json: Json = False,
) -> None:
    """List accounts by their number, all or those that match.

    \b
    Examples:
      telesrv-admin users list
      telesrv-admin users list anna --json
    """
    text = search.removeprefix("@").removeprefix("+")
    users, presences = with_store(lambda store: _list(store, text, after, limit))
    if as_json:
        print_json([_plain(user, presences[user.user_id]) for user in users])
    elif not users:
        typer.echo("No such account.")
    else:
        print_table(
            ("account", "phone", "name", "username", "since", "last seen"),
            [
                (
                    user.user_id,
                    f"+{user.phone}" if user.phone else "-",
                    _name(user),
                    f"@{user.username}" if user.username else "-",
                    when(user.created_at),
                    _seen(presences[user.user_id]),
                )
                for user in users
            ],
        )
        if len(users) == limit:
            typer.echo(f"There may be more: --after {users[-1].user_id}")


@app.command()
def show(
    account: Annotated[str, typer.Argument(help="Its number, +phone or @username.")],
    as_json: Json = False,
) -> None:
    """Show one account: what it has, how far its log goes, and its devices.

    Exit code 1: there is no such account.

    \b
    Examples:
      telesrv-admin users show 5823910473
      telesrv-admin users show +15550001
      telesrv-admin users show @anna
    """
    check_name(account)
    found = with_store(lambda store: _find(store, account))
    if found is None:
        typer.echo("null" if as_json else f"There is no account {account}.")
        raise typer.Exit(1)
    user, presence, footprint, pts, devices = found
    if as_json:
        print_json(
            {
                **_plain(user, presence),
                "dialogs": footprint.dialogs,
                "messages": footprint.messages,
                "pts": pts,
                "last_pts": footprint.last_pts,
                "owed_pushes": footprint.owed_pushes,
                "failed_pushes": footprint.failed_pushes,
                "devices": [plain_device(device) for device in devices],
            }
        )
        return
    behind = "" if pts >= footprint.last_pts else f", then a gap below {footprint.last_pts}: see pts check"
    print_table(
        ("", str(user.user_id)),
        [
            ("phone", f"+{user.phone}" if user.phone else "-"),
            ("name", _name(user)),
            ("username", f"@{user.username}" if user.username else "-"),
            ("about", user.about or "-"),
            ("since", when(user.created_at)),
            ("last seen", _seen(presence)),
            ("chats", footprint.dialogs),
            ("messages", footprint.messages),
            ("log", f"complete up to pts {pts}{behind}"),
            ("pushes owed", footprint.owed_pushes),
            ("pushes given up", footprint.failed_pushes),
        ],
    )
    if devices:
        print_devices(devices)
    else:
        typer.echo("No device is logged in.")


async def _list(store: Store, text: str, after: int, limit: int) -> tuple[list[User], dict[int, Presence]]:
    users = await store.operations.accounts(text=text, after=after, limit=limit)
    presences = {user.user_id: Presence() for user in users}
    for start in range(0, len(users), _PAGE):
        presences |= await store.presence.get([user.user_id for user in users[start : start + _PAGE]])
    return users, presences


async def _find(store: Store, account: str) -> tuple[User, Presence, Footprint, int, list[Device]] | None:
    user = await find(store, account)
    if user is None:
        return None
    footprint = await store.operations.footprint(user.user_id)
    state = await store.updates.state(user.user_id)
    presence = (await store.presence.get([user.user_id])).get(user.user_id, Presence())
    return user, presence, footprint, state.pts, await store.operations.devices(user.user_id, limit=1000)


def _name(user: User) -> str:
    return "(deleted)" if user.deleted else f"{user.first_name} {user.last_name}".strip()


def _seen(presence: Presence) -> str:
    return "online" if presence.online_until else when(presence.last_seen_at)


def _plain(user: User, presence: Presence) -> dict[str, Any]:
    return {
        "user_id": user.user_id,
        "phone": user.phone,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "username": user.username,
        "about": user.about,
        "created_at": user.created_at,
        "online": presence.online_until > 0,
        "last_seen_at": presence.last_seen_at,
        "deleted": user.deleted,
    }
