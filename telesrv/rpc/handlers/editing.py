"""Editing messages that were sent, or are to be sent.

*Spec: messages.editMessage*
"""

from __future__ import annotations

from telesrv.domain.messages import Edited
from telesrv.domain.peers import MAX_ID
from telesrv.rpc.composing import count, message_text, refuse_unsupported
from telesrv.rpc.context import Context
from telesrv.rpc.convert.messages import message_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.errors import RpcError, bad_request
from telesrv.rpc.handlers.scheduled import edit_scheduled
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl
from telesrv.tl import functions, types

_TEXT_ONLY = (types.InputMediaEmpty, types.InputMediaWebPage)
"""What clients send as the media of a text."""


@handler(functions.messages.EditMessage)
async def edit_message(ctx: Context, request: functions.messages.EditMessage) -> object:
    """Gives the caller's own message another text, for everybody who has a copy; with a schedule_date, one
    that is to be sent.

    Raises:
        RpcError: the peer, the message or the text is wrong, or asks for what is not there;
            400 MESSAGE_NOT_MODIFIED, MESSAGE_EDIT_TIME_EXPIRED; 403 MESSAGE_AUTHOR_REQUIRED,
            EDIT_MESSAGES_FORBIDDEN when the peer blocked the caller.

    *Spec: messages.editMessage*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    if request.media is not None and not isinstance(request.media, _TEXT_ONLY):
        raise bad_request("MEDIA_INVALID")
    refuse_unsupported(request)
    if not 0 < request.id <= MAX_ID:
        raise bad_request("MESSAGE_ID_INVALID")
    formatted = None
    if request.message is not None:
        formatted = message_text(ctx, request.message, request.entities)
    await count(ctx, "messages:edit")
    if request.schedule_date:
        return await edit_scheduled(ctx, request, peer, formatted)
    if formatted is None:
        raise bad_request("MESSAGE_NOT_MODIFIED")
    edited = await ctx.store.edits.edit(
        ctx.user_id,
        peer,
        request.id,
        formatted.text,
        formatted.entities,
        date=ctx.now(),
        origin=ctx.origin,
    )
    return await _edited_to_tl(ctx, edited)


async def _edited_to_tl(ctx: Context, edited: Edited) -> types.Updates:
    update = types.UpdateEditMessage(
        message=message_to_tl(edited.box), pts=edited.pts, pts_count=edited.pts_count
    )
    return await updates_to_tl(ctx, [update], user_ids_of([edited.box]))


@handler(functions.messages.GetMessageEditData)
async def get_message_edit_data(ctx: Context, request: functions.messages.GetMessageEditData) -> object:
    """Answers that a message of the caller's own is a text, not a caption.

    Raises:
        RpcError: 400 PEER_ID_INVALID, MESSAGE_ID_INVALID; 403 MESSAGE_AUTHOR_REQUIRED.

    *Spec: messages.getMessageEditData*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    box = (await ctx.store.messages.get(ctx.user_id, [request.id])).get(request.id)
    if box is None or box.peer != peer or box.action is not None:
        raise bad_request("MESSAGE_ID_INVALID")
    if not box.outgoing or box.fwd is not None:
        raise RpcError(403, "MESSAGE_AUTHOR_REQUIRED")
    return types.messages.MessageEditData(caption=False)
