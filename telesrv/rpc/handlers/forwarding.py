"""Forwarding messages from one chat to another.

*Spec: messages.forwardMessages*
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from telesrv.domain.digests import forward_digest
from telesrv.domain.errors import PeerInvalid, RandomIdConflict
from telesrv.domain.forwards import MAX_FORWARDS, forward_header
from telesrv.domain.messages import MessageBox, SendRequest, SentMessage
from telesrv.domain.peers import MAX_ID, Peer
from telesrv.domain.scheduled import scheduled_digest
from telesrv.rpc.audience import show_active
from telesrv.rpc.composing import count, peer_error, refuse_unsupported
from telesrv.rpc.context import Context
from telesrv.rpc.convert.messages import message_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.errors import bad_request
from telesrv.rpc.handlers.scheduled import schedule_all, scheduled_before, send_time
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl
from telesrv.tl import functions, types


@handler(functions.messages.ForwardMessages)
async def forward_messages(ctx: Context, request: functions.messages.ForwardMessages) -> object:
    """Sends copies of the caller's messages to a chat, in the order given, each once for its random_id.

    It counts as one message for the limit on sending. What is wrong with one of them is found before any is
    sent: of those that were sent by a call that is refused its session would not be told.

    Raises:
        RpcError: a peer, an id or a random_id is wrong, or it asks for what is not there;
            400 CHAT_FORWARDS_RESTRICTED for a message that may not be forwarded, YOU_BLOCKED_USER.

    *Spec: messages.forwardMessages*
    """
    refuse_unsupported(request)
    if request.reply_to is not None and not _is_no_reply(request.reply_to):
        raise bad_request("REPLY_MESSAGE_ID_INVALID")
    source = peer_of(request.from_peer, ctx.user_id, ctx.secret)
    target = peer_of(request.to_peer, ctx.user_id, ctx.secret)
    _check_ids(request)
    at = send_time(ctx, request.schedule_date)
    known = await ctx.store.forwards.sent_before(ctx.user_id, request.random_id)
    requests = await _requests(ctx, request, source, target, known)
    _check_repeats(requests, known, at=at, schedule_date=request.schedule_date or 0)
    await count(ctx, "messages:send")
    if at:
        new = sum(one.random_id not in known for one in requests)
        await ctx.store.scheduled.check_room(ctx.user_id, target, new)
        try:
            return await schedule_all(ctx, requests, at)
        except PeerInvalid as error:
            raise await peer_error(ctx, target) from error
    await ctx.store.ttl.begin(ctx.user_id, target, requests, date=ctx.now())
    outcomes = await asyncio.gather(*map(ctx.store.messages.send, requests), return_exceptions=True)
    if request.schedule_date and all(isinstance(outcome, RandomIdConflict) for outcome in outcomes):
        return await scheduled_before(ctx, requests)
    sent: list[SentMessage] = []
    for outcome in outcomes:
        if isinstance(outcome, PeerInvalid):
            raise await peer_error(ctx, target) from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        sent.append(outcome)
    await show_active(ctx.store, ctx.sessions, ctx.user_id, ctx.now())
    updates: list[types.TypeUpdate] = [
        types.UpdateMessageID(id=one.box.box_id, random_id=asked.random_id)
        for one, asked in zip(sent, requests, strict=True)
    ]
    for one in sent:
        message = message_to_tl(one.box)
        updates.append(types.UpdateNewMessage(message=message, pts=one.pts, pts_count=one.pts_count))
    return await updates_to_tl(ctx, updates, user_ids_of(one.box for one in sent))


def _is_no_reply(reply: types.TypeInputReplyTo) -> bool:
    return isinstance(reply, types.InputReplyToMessage) and reply.reply_to_msg_id == 0


def _check_ids(request: functions.messages.ForwardMessages) -> None:
    if not request.id:
        raise bad_request("MESSAGE_IDS_EMPTY")
    if len(request.id) > MAX_FORWARDS:
        raise bad_request("LIMIT_INVALID")
    if len(request.id) != len(request.random_id):
        raise bad_request("RANDOM_ID_INVALID")
    if 0 in request.random_id:
        raise bad_request("RANDOM_ID_EMPTY")
    if len(set(request.random_id)) != len(request.random_id):
        raise bad_request("RANDOM_ID_DUPLICATE")


def _check_repeats(
    requests: Iterable[SendRequest], known: Mapping[int, bytes], *, at: int, schedule_date: int
) -> None:
    """Accepts random_ids that are new, or were used for the same, as a repeated call uses them.

    Args:
        known: the digests of what was sent by these random_ids.
        at: when it is to be sent; 0: now, as for a *schedule_date* that has passed: then all of it may have
            been scheduled before.
    Raises:
        RandomIdConflict: one was used for something else.
    """
    later = {one.random_id: known.get(one.random_id) == scheduled_digest(one.digest) for one in requests}
    may_be_later = bool(at) or (schedule_date > 0 and all(later.values()))
    for one in requests:
        if one.random_id not in known:
            continue
        if later[one.random_id] and may_be_later:
            continue
        if at or known[one.random_id] != one.digest:
            raise RandomIdConflict


async def _requests(
    ctx: Context,
    request: functions.messages.ForwardMessages,
    source: Peer,
    target: Peer,
    known: Mapping[int, bytes],
) -> list[SendRequest]:
    """Returns what is to be sent; of what was sent before and is gone since only what names it counts."""
    usable = [box_id for box_id in request.id if 0 < box_id <= MAX_ID]
    boxes = await ctx.store.messages.get(ctx.user_id, usable)
    boxes = {box_id: box for box_id, box in boxes.items() if box.peer == source and box.action is None}
    origin = ctx.origin
    digests = {
        random_id: forward_digest(origin.auth_key_id, source, box_id, target, drop_author=request.drop_author)
        for random_id, box_id in zip(request.random_id, request.id, strict=True)
    }
    for random_id, box_id in zip(request.random_id, request.id, strict=True):
        digest = digests[random_id]
        if box_id not in boxes and known.get(random_id) not in (digest, scheduled_digest(digest)):
            raise bad_request("MESSAGE_ID_INVALID")
    if any(box.noforwards for box in boxes.values()):
        raise bad_request("CHAT_FORWARDS_RESTRICTED")
    authors = {box.from_user_id for box in boxes.values()}
    views = await ctx.store.users.views(ctx.user_id, authors) if authors else {}

    def copy(box: MessageBox | None, random_id: int) -> SendRequest:
        shown = box is not None and not request.drop_author
        return SendRequest(
            sender_user_id=ctx.user_id,
            peer=target,
            random_id=random_id,
            text=box.text if box else "",
            entities=box.entities if box else (),
            date=ctx.now(),
            silent=request.silent,
            noforwards=request.noforwards,
            origin=origin,
            digest=digests[random_id],
            fwd=forward_header(box, views.get(box.from_user_id), target) if shown and box else None,
        )

    return [
        copy(boxes.get(box_id), random_id)
        for random_id, box_id in zip(request.random_id, request.id, strict=True)
    ]
