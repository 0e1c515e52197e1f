"""Deleting messages and whole chats, and noting that contents were seen.

*Spec: messages.deleteMessages; messages.deleteHistory; messages.readMessageContents*
"""

from __future__ import annotations

from telesrv.domain.messages import MAX_CHANGED, Affected
from telesrv.rpc.context import Context
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types


@handler(functions.messages.DeleteMessages)
async def delete_messages(ctx: Context, request: functions.messages.DeleteMessages) -> object:
    """Deletes the caller's copies, and with *revoke* the other sides'; ids that name nothing are left out.

    Raises:
        RpcError: 400 LIMIT_INVALID for more than 1,000 ids; 403 DELETE_MESSAGES_FORBIDDEN when it would reach
            somebody who blocked the caller.

    *Spec: messages.deleteMessages*
    """
    if len(request.id) > MAX_CHANGED:
        raise bad_request("LIMIT_INVALID")
    affected = await ctx.store.deletes.delete(
        ctx.user_id, request.id, revoke=request.revoke, date=ctx.now(), origin=ctx.origin
    )
    return affected_messages(affected)


@handler(functions.messages.DeleteHistory)
async def delete_history(ctx: Context, request: functions.messages.DeleteHistory) -> object:
    """Deletes the newest part of a chat, and answers a positive offset until all of it is gone.

    The dates are not looked at: they are a refinement that clients of a private chat do not rely on.

    Raises:
        RpcError: 400 PEER_ID_INVALID; 403 DELETE_MESSAGES_FORBIDDEN as above.

    *Spec: messages.deleteHistory*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    affected = await ctx.store.deletes.delete_history(
        ctx.user_id,
        peer,
        request.max_id,
        just_clear=request.just_clear,
        revoke=request.revoke,
        date=ctx.now(),
        origin=ctx.origin,
    )
    return affected_history(affected)


@handler(functions.messages.ReadMessageContents)
async def read_message_contents(ctx: Context, request: functions.messages.ReadMessageContents) -> object:
    """Notes that the caller has seen the contents of messages; what was seen already counts for nothing.

    Raises:
        RpcError: 400 LIMIT_INVALID for more than 1,000 ids.

    *Spec: messages.readMessageContents*
    """
    if len(request.id) > MAX_CHANGED:
        raise bad_request("LIMIT_INVALID")
    affected = await ctx.store.contents.read(ctx.user_id, request.id, date=ctx.now(), origin=ctx.origin)
    return affected_messages(affected)


def affected_messages(affected: Affected) -> types.messages.AffectedMessages:
    """Returns how the caller's pts moved.

    *Spec: Working with Updates*
    """
    return types.messages.AffectedMessages(pts=affected.pts, pts_count=affected.pts_count)


def affected_history(affected: Affected) -> types.messages.AffectedHistory:
    """Returns how the caller's pts moved; a positive offset asks for the same call again.

    *Spec: Working with Updates*
    """
    return types.messages.AffectedHistory(
        pts=affected.pts, pts_count=affected.pts_count, offset=int(affected.more)
    )
