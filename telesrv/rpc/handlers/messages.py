"""Messages: sending, reading, and looking at them.

*Spec: Working with Updates; Pagination in the API*
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telesrv.domain.digests import message_digest
from telesrv.domain.errors import PeerInvalid, RandomIdConflict
from telesrv.domain.messages import MAX_PAGE, READ_DATE_KEPT_S, MessageBox, ReplyTo, SendRequest
from telesrv.domain.peers import MAX_ID, SERVICE_USER_ID, Peer
from telesrv.rpc.audience import show_active
from telesrv.rpc.composing import (
    RATE_PERIOD_S,
    count,
    maybe_quote,
    message_text,
    peer_error,
    refuse_unsupported,
    replied_to,
)
from telesrv.rpc.context import Context
from telesrv.rpc.convert.dialogs import messages_hash
from telesrv.rpc.convert.messages import message_to_tl, sent_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.errors import FORBIDDEN, RpcError, bad_request
from telesrv.rpc.handlers.scheduled import schedule_all, scheduled_before, send_time
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl, users_to_tl
from telesrv.tl import functions, types

TYPING_PER_MINUTE: Final = 240
"""A client repeats it every five seconds in a chat; each one is a push to every device of the peer."""
DEFAULT_LIMIT: Final = 20
"""For a page whose size the client left at 0."""
MAX_IDS: Final = 200
"""Messages named in one getMessages; no client names more than 100."""


@handler(functions.messages.SendMessage)
async def send_message(ctx: Context, request: functions.messages.SendMessage) -> object:
    """Stores the message on both sides before it answers, or on the sender's list when it is for later; the
    same random_id is the same message for ever. The draft that it was ends with it.

    Raises:
        RpcError: the peer, the text, the reply or the random_id is wrong, or asks for what is not there;
            400 YOU_BLOCKED_USER.

    *Spec: messages.sendMessage*
    """
    refuse_unsupported(request)
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    if request.random_id == 0:
        raise bad_request("RANDOM_ID_EMPTY")
    formatted = message_text(ctx, request.message, request.entities)
    at = send_time(ctx, request.schedule_date)
    await count(ctx, "messages:send")
    reply_to = await _reply_to(ctx, request.reply_to, peer)
    message = SendRequest(
        sender_user_id=ctx.user_id,
        peer=peer,
        random_id=request.random_id,
        text=formatted.text,
        entities=formatted.entities,
        date=ctx.now(),
        silent=request.silent,
        noforwards=request.noforwards,
        reply_to=reply_to,
        origin=ctx.origin,
        digest=message_digest(ctx.caller.auth_key_id, peer, formatted, reply_to),
        clear_draft=request.clear_draft,
    )
    try:
        if at:
            return await schedule_all(ctx, [message], at)
        if reply_to is None:  # in a chat that is still to begin there is nothing to reply to
            await ctx.store.ttl.begin(ctx.user_id, peer, [message], date=ctx.now())
        sent = await ctx.store.messages.send(message)
    except PeerInvalid as error:
        raise await peer_error(ctx, peer) from error
    except RandomIdConflict:
        if at or not request.schedule_date:
            raise
        return await scheduled_before(ctx, [message])
    await show_active(ctx.store, ctx.sessions, ctx.user_id, ctx.now())
    if not isinstance(request.peer, types.InputPeerSelf):
        return sent_to_tl(sent)
    # A short answer names no chat: for that of inputPeerSelf pyrogram and kurigram look in vain, and fail.
    updates: list[types.TypeUpdate] = [
        types.UpdateMessageID(id=sent.box.box_id, random_id=request.random_id),
        types.UpdateNewMessage(message=message_to_tl(sent.box), pts=sent.pts, pts_count=sent.pts_count),
    ]
    return await updates_to_tl(ctx, updates, user_ids_of([sent.box]))


async def _reply_to(ctx: Context, reply: types.TypeInputReplyTo | None, peer: Peer) -> ReplyTo | None:
    """Returns what is answered, in the sender's ids. A quote is checked against the quoted message, so that
    nobody is made to have said what they have not.
    """
    if isinstance(reply, types.InputReplyToMessage):
        if reply.poll_option:
            raise bad_request("POLL_OPTION_INVALID")
        if reply.todo_item_id:
            raise bad_request("REPLY_MESSAGE_ID_INVALID")
    asked = replied_to(ctx, reply, peer)
    if asked is None:
        return None
    quote = maybe_quote(ctx, asked)
    if quote is None:
        return ReplyTo(asked.reply_to_msg_id)
    boxes = await ctx.store.messages.get(ctx.user_id, [asked.reply_to_msg_id])
    box = boxes.get(asked.reply_to_msg_id)
    if box is None or box.peer != peer:
        raise bad_request("REPLY_MESSAGE_ID_INVALID")
    if quote.text not in box.text:
        raise bad_request("QUOTE_TEXT_INVALID")
    return ReplyTo(asked.reply_to_msg_id, quote.text, quote.entities, asked.quote_offset)


@handler(functions.messages.GetMessages)
async def get_messages(ctx: Context, request: functions.messages.GetMessages) -> object:
    """Returns the caller's own copies, in the order asked for; messageEmpty for each that is not there.

    Raises:
        RpcError: 400 LIMIT_INVALID when too many are named.

    *Spec: messages.getMessages*
    """
    if len(request.id) > MAX_IDS:
        raise bad_request("LIMIT_INVALID")
    named = [part.id for part in request.id if isinstance(part, types.InputMessageID)]
    origins = [part.id for part in request.id if isinstance(part, types.InputMessageReplyTo)]
    boxes = await _boxes(ctx, named + origins)
    answered = {
        box_id: reply.box_id
        for box_id in origins
        if (box := boxes.get(box_id)) is not None and (reply := box.reply_to) is not None
    }
    boxes |= await _boxes(ctx, [box_id for box_id in answered.values() if box_id not in boxes])
    messages: list[types.TypeMessage] = []
    found: list[MessageBox] = []
    for part in request.id:
        box_id = 0
        if isinstance(part, types.InputMessageID):
            box_id = part.id
        elif isinstance(part, types.InputMessageReplyTo):
            box_id = answered.get(part.id, 0)
        box = boxes.get(box_id)
        if box is None:
            messages.append(types.MessageEmpty(id=box_id))
        else:
            found.append(box)
            messages.append(message_to_tl(box))
    users = await users_to_tl(ctx, user_ids_of(found))
    return types.messages.Messages(messages=messages, topics=[], chats=[], users=users)


async def _boxes(ctx: Context, box_ids: Sequence[int]) -> dict[int, MessageBox]:
    usable = sorted({box_id for box_id in box_ids if 0 < box_id <= MAX_ID})
    return await ctx.store.messages.get(ctx.user_id, usable) if usable else {}


@handler(functions.messages.GetHistory)
async def get_history(ctx: Context, request: functions.messages.GetHistory) -> object:
    """Returns one page of a chat, newest first; an empty one when there is nothing beyond.

    Raises:
        RpcError: 400 PEER_ID_INVALID.

    *Spec: messages.getHistory; Pagination in the API*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    page = await ctx.store.messages.history(
        ctx.user_id,
        peer,
        offset_id=max(request.offset_id, 0),
        offset_date=max(request.offset_date, 0),
        add_offset=request.add_offset,
        limit=page_limit(request.limit),
        max_id=max(request.max_id, 0),
        min_id=max(request.min_id, 0),
    )
    if request.hash and request.hash == messages_hash(page.boxes):
        return types.messages.MessagesNotModified(count=page.total)
    users = await users_to_tl(ctx, user_ids_of(page.boxes) | {peer.id})
    messages: list[types.TypeMessage] = [message_to_tl(box) for box in page.boxes]
    if len(messages) == page.total:
        return types.messages.Messages(messages=messages, topics=[], chats=[], users=users)
    return types.messages.MessagesSlice(
        count=page.total,
        messages=messages,
        topics=[],
        chats=[],
        users=users,
    )


def page_limit(asked: int) -> int:
    """Returns how many entries a page holds: 1 to MAX_PAGE, a default when the client leaves it open.

    *Spec: Pagination in the API*
    """
    return min(asked, MAX_PAGE) if asked > 0 else DEFAULT_LIMIT


@handler(functions.messages.GetSplitRanges)
async def get_split_ranges(ctx: Context, request: functions.messages.GetSplitRanges) -> object:
    """Returns the one range that holds every message: histories are not split here.

    *Spec: messages.getSplitRanges*
    """
    return [types.MessageRange(min_id=1, max_id=MAX_ID)]


@handler(functions.messages.ReadHistory)
async def read_history(ctx: Context, request: functions.messages.ReadHistory) -> object:
    """Moves the caller's read mark forward, never back; the author learns of it. max_id 0 reads everything.

    Raises:
        RpcError: 400 PEER_ID_INVALID.

    *Spec: messages.readHistory*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    outcome = await ctx.store.messages.read(
        ctx.user_id,
        peer,
        request.max_id if request.max_id > 0 else MAX_ID,
        date=ctx.now(),
        origin=ctx.origin,
    )
    return types.messages.AffectedMessages(pts=outcome.pts, pts_count=outcome.pts_count)


@handler(functions.messages.GetOutboxReadDate)
async def get_outbox_read_date(ctx: Context, request: functions.messages.GetOutboxReadDate) -> object:
    """Returns when the peer read a message of the caller's, from the durable receipts.

    Raises:
        RpcError: 400 PEER_ID_INVALID, MESSAGE_ID_INVALID for what is no own message of this chat,
            MESSAGE_TOO_OLD, MESSAGE_NOT_READ_YET; 403 as of `check_read_dates`.

    *Spec: messages.getOutboxReadDate*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    box = (await _boxes(ctx, [request.msg_id])).get(request.msg_id)
    if box is None or not box.outgoing or box.peer != peer:
        raise bad_request("MESSAGE_ID_INVALID")
    if ctx.now() - box.date > READ_DATE_KEPT_S:
        raise bad_request("MESSAGE_TOO_OLD")
    await check_read_dates(ctx, peer.id)
    date = await ctx.store.messages.read_date(ctx.user_id, peer, box.box_id)
    if date is None:
        raise bad_request("MESSAGE_NOT_READ_YET")
    return types.OutboxReadDate(date=date)


async def check_read_dates(ctx: Context, user_id: int) -> None:
    """Returns when the caller may know when the account read something, and does not hide the same from it.

    Raises:
        RpcError: 403 YOUR_PRIVACY_RESTRICTED, USER_PRIVACY_RESTRICTED.

    *Spec: messages.getOutboxReadDate*
    """
    mine = (await ctx.store.users.seen_by(ctx.user_id, [user_id])).get(user_id)
    if mine is not None and mine.read_dates_hidden:
        raise RpcError(FORBIDDEN, "YOUR_PRIVACY_RESTRICTED")
    theirs = (await ctx.store.users.views(ctx.user_id, [user_id])).get(user_id)
    if theirs is not None and theirs.read_dates_hidden:
        raise RpcError(FORBIDDEN, "USER_PRIVACY_RESTRICTED")


@handler(functions.messages.ReceivedMessages)
async def received_messages(ctx: Context, request: functions.messages.ReceivedMessages) -> object:
    """Returns no notification to cancel: there are none beside the updates themselves.

    *Spec: messages.receivedMessages*
    """
    nothing: list[types.TypeReceivedNotifyMessage] = []
    return nothing


_SHOWN_ACTIONS: Final = (
    types.SendMessageTypingAction,
    types.SendMessageCancelAction,
    types.SendMessageRecordVideoAction,
    types.SendMessageUploadVideoAction,
    types.SendMessageRecordAudioAction,
    types.SendMessageUploadAudioAction,
    types.SendMessageUploadPhotoAction,
    types.SendMessageUploadDocumentAction,
    types.SendMessageGeoLocationAction,
    types.SendMessageChooseContactAction,
    types.SendMessageGamePlayAction,
    types.SendMessageRecordRoundAction,
    types.SendMessageUploadRoundAction,
    types.SendMessageChooseStickerAction,
)
"""What a peer is shown; others carry ids or texts of the sender's own, which mean nothing to the peer."""


@handler(functions.messages.SetTyping)
async def set_typing(ctx: Context, request: functions.messages.SetTyping) -> object:
    """Shows the peer's sessions that are online what the caller is doing, unless one of the two has
    blocked the other.

    The caller cannot tell whether it was shown. Whom the caller has blocked does not learn that way that the
    caller is there.

    Raises:
        RpcError: 400 PEER_ID_INVALID.

    *Spec: messages.setTyping*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    if peer.id in (ctx.user_id, SERVICE_USER_ID) or not isinstance(request.action, _SHOWN_ACTIONS):
        return True
    await ctx.store.limits.hit("messages:typing", ctx.user_id, TYPING_PER_MINUTE, RATE_PERIOD_S)
    blocks = ctx.store.blocks
    if await blocks.has(peer.id, Peer.user(ctx.user_id)) or await blocks.has(ctx.user_id, peer):
        return True
    update = types.UpdateUserTyping(user_id=ctx.user_id, action=request.action)
    await ctx.sessions.push_transient(peer.id, update)
    return True
