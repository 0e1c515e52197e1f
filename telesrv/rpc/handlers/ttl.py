"""After how long messages are deleted by themselves.

*Spec: messages.setHistoryTTL; messages.setDefaultHistoryTTL*
"""

from __future__ import annotations

from telesrv.rpc.context import Context
from telesrv.rpc.convert.messages import service_to_tl
from telesrv.rpc.convert.peers import peer_of, peer_to_tl
from telesrv.rpc.convert.updates import carrier
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl
from telesrv.tl import functions, types


@handler(functions.messages.SetHistoryTTL)
async def set_history_ttl(ctx: Context, request: functions.messages.SetHistoryTTL) -> object:
    """Has new messages of a chat deleted after a time, on both sides; 0 keeps them. A message tells of it.

    Raises:
        RpcError: 400 PEER_ID_INVALID, TTL_PERIOD_INVALID, CHAT_NOT_MODIFIED.

    *Spec: messages.setHistoryTTL*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    changed = await ctx.store.ttl.set(ctx.user_id, peer, request.period, date=ctx.now(), origin=ctx.origin)
    affected = changed.affected
    updates: list[types.TypeUpdate] = [
        types.UpdatePeerHistoryTTL(peer=peer_to_tl(peer), ttl_period=request.period or None)
    ]
    if affected.pts_count:
        updates.append(carrier(affected.pts, affected.pts_count))
    updates += service_to_tl(changed.service)
    return await updates_to_tl(ctx, updates, [ctx.user_id, peer.id])


@handler(functions.messages.SetDefaultHistoryTTL)
async def set_default_history_ttl(ctx: Context, request: functions.messages.SetDefaultHistoryTTL) -> object:
    """Sets the time with which chats that the caller begins start.

    Raises:
        RpcError: 400 TTL_PERIOD_INVALID.

    *Spec: messages.setDefaultHistoryTTL*
    """
    await ctx.store.ttl.set_default(ctx.user_id, request.period)
    return True


@handler(functions.messages.GetDefaultHistoryTTL)
async def get_default_history_ttl(ctx: Context, request: functions.messages.GetDefaultHistoryTTL) -> object:
    """Returns the time with which chats that the caller begins start; 0: none.

    *Spec: messages.getDefaultHistoryTTL*
    """
    return types.DefaultHistoryTTL(period=await ctx.store.ttl.default(ctx.user_id))
