"""Users for an answer: read once for all of them, shown as the caller may see them.

Spec: Peers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from telesrv.rpc.convert.users import user_to_tl
from telesrv.rpc.errors import unauthorized

if TYPE_CHECKING:
    from telesrv.domain.users import UserView
    from telesrv.rpc.context import Context
    from telesrv.tl import types


async def users_to_tl(ctx: Context, user_ids: Iterable[int]) -> list[types.TypeUser]:
    """Returns those of the accounts that exist, in the given order, each once."""
    ids = list(dict.fromkeys(user_ids))
    views = await ctx.store.users.views(ctx.user_id, ids)
    return [user_to_tl(views[user_id], ctx.secret, ctx.now()) for user_id in ids if user_id in views]


async def view_of(ctx: Context, user_id: int) -> UserView | None:
    """Returns what the caller sees of one account; None when there never was one."""
    return (await ctx.store.users.views(ctx.user_id, [user_id])).get(user_id)


async def self_to_tl(ctx: Context) -> types.User:
    """Returns the caller's own account.

    Raises:
        RpcError: 401 when the account is gone.
    """
    view = await view_of(ctx, ctx.user_id)
    if view is None or view.user.deleted:
        raise unauthorized("USER_DEACTIVATED")
    return user_to_tl(view, ctx.secret, ctx.now())
