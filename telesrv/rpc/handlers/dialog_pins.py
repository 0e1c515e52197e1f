"""Pinning chats and putting the pinned ones in order.

The events of these changes have pts and the answers have none, so they come to the calling session as well.

*Spec: messages.toggleDialogPin; messages.reorderPinnedDialogs*
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telesrv.domain.dialogs import ARCHIVE, MAIN, MAX_PINNED
from telesrv.domain.errors import DialogMissing
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context


@handler(functions.messages.ToggleDialogPin)
async def toggle_dialog_pin(ctx: Context, request: functions.messages.ToggleDialogPin) -> bool:
    """Pins a chat above the others of its folder or takes the pin off; the archive itself has its place.

    Raises:
        RpcError: 400 PEER_HISTORY_EMPTY when there is no such chat, PINNED_DIALOGS_TOO_MUCH,
            FOLDER_ID_INVALID.
    """
    if not isinstance(request.peer, types.InputDialogPeer):
        raise bad_request("FOLDER_ID_INVALID")
    peer = peer_of(request.peer.peer, ctx.user_id, ctx.secret)
    try:
        await ctx.store.pins.toggle(ctx.user_id, peer, request.pinned)
    except DialogMissing as error:
        raise bad_request("PEER_HISTORY_EMPTY") from error
    return True


@handler(functions.messages.ReorderPinnedDialogs)
async def reorder_pinned_dialogs(ctx: Context, request: functions.messages.ReorderPinnedDialogs) -> bool:
    """Puts the pinned chats of a folder in order; the archive, which clients name too, keeps its place.

    Raises:
        RpcError: 400 FOLDER_ID_INVALID, PINNED_DIALOGS_TOO_MUCH, PEER_ID_INVALID for what is no chat of the
            folder.
    """
    if request.folder_id not in (MAIN, ARCHIVE):
        raise bad_request("FOLDER_ID_INVALID")
    if len(request.order) > MAX_PINNED[ARCHIVE] + 1:
        raise bad_request("PINNED_DIALOGS_TOO_MUCH")
    order = [
        peer_of(named.peer, ctx.user_id, ctx.secret)
        for named in request.order
        if isinstance(named, types.InputDialogPeer)
    ]
    await ctx.store.pins.reorder(ctx.user_id, request.folder_id, order, force=request.force)
    return True
