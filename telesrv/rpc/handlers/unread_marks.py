"""Chats that the caller marked as unread by hand.

*Spec: messages.markDialogUnread*
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telesrv.rpc.convert.peers import peer_of, peer_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context


@handler(functions.messages.MarkDialogUnread)
async def mark_dialog_unread(ctx: Context, request: functions.messages.MarkDialogUnread) -> bool:
    """Marks a chat as unread or takes the mark off, for all devices of the caller.

    Raises:
        RpcError: 400 PEER_ID_INVALID when there is no such chat, PARENT_PEER_INVALID, FOLDER_ID_INVALID.
    """
    if request.parent_peer is not None:
        raise bad_request("PARENT_PEER_INVALID")
    if not isinstance(request.peer, types.InputDialogPeer):
        raise bad_request("FOLDER_ID_INVALID")
    peer = peer_of(request.peer.peer, ctx.user_id, ctx.secret)
    await ctx.store.unread_marks.mark(ctx.user_id, peer, request.unread)
    return True


@handler(functions.messages.GetDialogUnreadMarks)
async def get_dialog_unread_marks(
    ctx: Context, request: functions.messages.GetDialogUnreadMarks
) -> list[types.TypeDialogPeer]:
    """Answers which chats the caller marked as unread.

    Raises:
        RpcError: 400 PARENT_PEER_INVALID.
    """
    if request.parent_peer is not None:
        raise bad_request("PARENT_PEER_INVALID")
    peers = await ctx.store.unread_marks.marked(ctx.user_id)
    return [types.DialogPeer(peer=peer_to_tl(peer)) for peer in peers]
