"""`telesrv-admin pts`: is an account's log missing an update, and fill what is missing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from telesrv.admin import accounts
from telesrv.admin.output import Json, group, print_json, print_table
from telesrv.admin.stores import with_store

if TYPE_CHECKING:
    from telesrv.store import Store
    from telesrv.store.gaps import Gap

app = group(
    """The update logs of the accounts.

    Each account has one log, numbered by pts without a gap. A number that a writer took and did not use
    is filled by the server within seconds; a gap that stays keeps the account's devices from all behind it.
    """
)

User = Annotated[str | None, typer.Option(help=f"Only this account: {accounts.HELP}.")]
Settle = Annotated[
    float,
    typer.Option(min=0, help="Look again for this many seconds before a hole counts as a gap."),
]


@app.command()
def check(user: User = None, settle: Settle = 0.0, as_json: Json = False) -> None:
    """Look for missing pts below a committed one.

    Exit code 0: none; 1: there are gaps, or no such account; 2: could not check.

    \b
    Examples:
      telesrv-admin pts check --settle 10
      telesrv-admin pts check --user +15550001 --json
    """
    if user is not None:
        accounts.check_name(user)

    async def work(store: Store) -> tuple[int, list[Gap]]:
        return await _settled(store, await _number(store, user, as_json), settle)

    users, gaps = with_store(work)
    if as_json:
        print_json({"users": users, "gaps": _plain(gaps)})
    elif gaps:
        _print(gaps)
        typer.echo("The server fills gaps within seconds. If these stay: telesrv-admin pts repair")
    else:
        typer.echo(f"{users} account{'' if users == 1 else 's'}, no gap.")
    raise typer.Exit(1 if gaps else 0)


@app.command()
def repair(
    user: User = None,
    settle: Settle = 10.0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this it only says what it would do.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fill missing pts with updates that say nothing, so that devices get what lies behind them.

    Nothing that is there is changed, and no message is lost by it: what a gap stands for was never committed.
    It may run while the server does. Only gaps that stay for the settling time are filled.

    Exit code 0: no gap is left; 1: there are gaps (without --yes nothing was done), or no such account;
    2: could not do it.

    \b
    Examples:
      telesrv-admin pts repair
      telesrv-admin pts repair --yes
    """
    if user is not None:
        accounts.check_name(user)

    async def work(store: Store) -> tuple[list[Gap], int, list[Gap]]:
        number = await _number(store, user, as_json)
        _, gaps = await _settled(store, number, settle)
        if not gaps or not yes:
            return gaps, 0, gaps
        filled = await store.gaps.fill(gaps)
        return gaps, filled, (await store.gaps.find(number))[1]

    gaps, filled, left = with_store(work)
    missing, concerned = sum(gap.pts_count for gap in gaps), len({gap.user_id for gap in gaps})
    if as_json:
        print_json({"gaps": _plain(gaps), "filled": filled, "left": _plain(left), "done": yes})
    elif not gaps:
        typer.echo("No gap; nothing to do.")
    else:
        _print(gaps)
        if yes:
            typer.echo(f"Filled {filled} pts in {concerned} accounts; {len(left)} gaps are left.")
        else:
            typer.echo(f"Would fill {missing} pts in {concerned} accounts. To do it: the same with --yes")
    raise typer.Exit(1 if left else 0)


async def _number(store: Store, account: str | None, as_json: bool) -> int | None:
    """Returns the number of the account of that name, None for all; ends the command when there is none."""
    if account is None:
        return None
    found = await accounts.find(store, account)
    if found is None:
        typer.echo("null" if as_json else f"There is no account {account}.")
        raise typer.Exit(1)
    return found.user_id


async def _settled(store: Store, user: int | None, settle: float) -> tuple[int, list[Gap]]:
    """Returns how many accounts have a log, and the gaps that were there for the whole settling time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settle
    users, gaps = await store.gaps.find(user)
    while gaps and (left_s := deadline - loop.time()) > 0:
        await asyncio.sleep(min(0.25, left_s))
        users, now = await store.gaps.find(user)
        before: dict[int, list[Gap]] = {}
        for gap in gaps:
            before.setdefault(gap.user_id, []).append(gap)
        gaps = [gap for gap in now if any(map(gap.overlaps, before.get(gap.user_id, ())))]
    return users, gaps


def _plain(gaps: list[Gap]) -> list[dict[str, int]]:
    return [{"user_id": gap.user_id, "from_pts": gap.from_pts, "to_pts": gap.to_pts} for gap in gaps]


def _print(gaps: list[Gap]) -> None:
    print_table(
        ("account", "from pts", "to pts", "missing"),
        [(gap.user_id, gap.from_pts, gap.to_pts, gap.pts_count) for gap in gaps],
    )
