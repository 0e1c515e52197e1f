"""How commands are told an account: by its number, its phone number or its username."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telesrv.admin.output import fail

if TYPE_CHECKING:
    from telesrv.domain.users import User
    from telesrv.store import Store

HELP: Final = "its number, +phone or @username"
_MAX_NUMBER: Final = 1 << 63


def check_name(account: str) -> None:
    """Ends the command when *account* cannot name one."""
    if not account.startswith(("+", "@")) and not (account.isascii() and account.isdigit()):
        fail(f"{account} names no account: give {HELP}")


async def find(store: Store, account: str) -> User | None:
    """Returns the account of that name; digits alone are its number or else its phone number."""
    if account.startswith("@"):
        return await store.accounts.by_username(account)
    if not account.startswith("+"):
        number = int(account)
        user = await store.users.get(number) if number < _MAX_NUMBER else None
        if user is not None:
            return user
    return await store.accounts.by_phone("".join(filter(str.isdigit, account)))
