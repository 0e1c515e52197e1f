"""Accounts by InputUser.

*Spec: users.getUsers; users.getFullUser*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telesrv.domain.notify import NotifyScope, NotifyTarget
from telesrv.domain.peers import Peer
from telesrv.rpc.convert.notify import notify_settings_to_tl
from telesrv.rpc.convert.peers import user_of
from telesrv.rpc.convert.users import user_full_to_tl, user_to_tl
from telesrv.rpc.errors import RpcError, bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import view_of
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

MAX_USERS: Final = 200


@handler(functions.users.GetUsers)
async def get_users(ctx: Context, request: functions.users.GetUsers) -> list[types.TypeUser]:
    """Answers one user for each that is asked for, in order; empty ones for those the caller cannot name."""
    if len(request.id) > MAX_USERS:
        raise bad_request("LIMIT_INVALID")
    ids = [_maybe_user_id(ctx, input_user) for input_user in request.id]
    views = await ctx.store.users.views(ctx.user_id, {user_id for user_id in ids if user_id})
    return [
        user_to_tl(views[user_id], ctx.secret, ctx.now())
        if user_id in views
        else types.UserEmpty(id=getattr(input_user, "user_id", 0))
        for input_user, user_id in zip(request.id, ids, strict=True)
    ]


@handler(functions.users.GetFullUser)
async def get_full_user(ctx: Context, request: functions.users.GetFullUser) -> types.users.UserFull:
    """Answers the profile page of one account."""
    view = await view_of(ctx, user_of(request.id, ctx.user_id, ctx.secret))
    if view is None:
        raise bad_request("USER_ID_INVALID")
    peer = Peer.user(view.user.user_id)
    settings = notify_settings_to_tl(
        await ctx.store.notify.get(ctx.user_id, NotifyTarget(NotifyScope.PEER, peer))
    )
    full = user_full_to_tl(view, settings)
    full.can_pin_message = True
    full.has_scheduled = await ctx.store.scheduled.any_waiting(ctx.user_id, peer)
    full.folder_id = await ctx.store.dialogs.folder_id(ctx.user_id, peer) or None
    full.pinned_msg_id = await ctx.store.pinned_messages.newest(ctx.user_id, peer) or None
    full.ttl_period = (await ctx.store.ttl.periods(ctx.user_id, [peer.id])).get(peer.id)
    return types.users.UserFull(full_user=full, chats=[], users=[user_to_tl(view, ctx.secret, ctx.now())])


def _maybe_user_id(ctx: Context, input_user: types.TypeInputUser) -> int:
    try:
        return user_of(input_user, ctx.user_id, ctx.secret)
    except RpcError:
        return 0
