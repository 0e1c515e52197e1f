"""Pinned messages of a chat.

*Spec: Pinned messages*
"""

from __future__ import annotations

from telesrv.rpc.context import Context
from telesrv.rpc.convert.messages import service_to_tl
from telesrv.rpc.convert.peers import peer_of, peer_to_tl
from telesrv.rpc.handlers.deleting import affected_history
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl
from telesrv.tl import functions, types


@handler(functions.messages.UpdatePinnedMessage)
async def update_pinned_message(ctx: Context, request: functions.messages.UpdatePinnedMessage) -> object:
    """Pins or unpins a message of a chat, for both sides unless the caller asks for the own side only.

    A message tells both sides of a pin for both. It is always silent, as a pin of a private chat is.

    Raises:
        RpcError: 400 PEER_ID_INVALID, MESSAGE_ID_INVALID, CHAT_NOT_MODIFIED.

    *Spec: messages.updatePinnedMessage*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    pinned = not request.unpin
    changed = await ctx.store.pinned_messages.pin(
        ctx.user_id,
        peer,
        request.id,
        pinned,
        one_side=request.pm_oneside,
        date=ctx.now(),
        origin=ctx.origin,
    )
    update = types.UpdatePinnedMessages(
        pinned=pinned,
        peer=peer_to_tl(peer),
        messages=[request.id],
        pts=changed.affected.pts,
        pts_count=changed.affected.pts_count,
    )
    return await updates_to_tl(ctx, [update, *service_to_tl(changed.service)], [ctx.user_id, peer.id])


@handler(functions.messages.UnpinAllMessages)
async def unpin_all_messages(ctx: Context, request: functions.messages.UnpinAllMessages) -> object:
    """Unpins what is pinned in a chat, and answers a positive offset until nothing is.

    Raises:
        RpcError: 400 PEER_ID_INVALID.

    *Spec: messages.unpinAllMessages*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    return affected_history(
        await ctx.store.pinned_messages.unpin_all(ctx.user_id, peer, date=ctx.now(), origin=ctx.origin)
    )
