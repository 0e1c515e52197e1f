"""Answers with the users that they show: read once for all of them, as the caller may see them.

*Spec: Peers*
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from telesrv.rpc.convert.updates import UNORDERED
from telesrv.rpc.convert.users import user_to_tl
from telesrv.rpc.errors import unauthorized
from telesrv.tl import types

if TYPE_CHECKING:
    from telesrv.domain.users import UserView
    from telesrv.rpc.context import Context


async def users_to_tl(ctx: Context, user_ids: Iterable[int]) -> list[types.TypeUser]:
    """Returns those of the accounts that exist, each once, by their ids."""
    views = await ctx.store.users.views(ctx.user_id, set(user_ids))
    return [user_to_tl(views[user_id], ctx.secret, ctx.now()) for user_id in sorted(views)]


async def updates_to_tl(
    ctx: Context, updates: Sequence[types.TypeUpdate], user_ids: Iterable[int]
) -> types.Updates:
    """Returns updates as the answer to the call that made them, with the accounts that they show."""
    users = await users_to_tl(ctx, user_ids)
    return types.Updates(updates=list(updates), users=users, chats=[], date=ctx.now(), seq=UNORDERED)


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
