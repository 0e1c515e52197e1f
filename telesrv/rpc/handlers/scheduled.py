"""Messages that are sent at a time set before.

*Spec: Scheduled messages*
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from telesrv.domain.errors import RandomIdConflict
from telesrv.domain.messages import SendRequest
from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import MAX_AHEAD_S, MAX_PER_CHAT, WHEN_ONLINE, ScheduledMessage
from telesrv.domain.text import FormattedText
from telesrv.domain.updates import Event
from telesrv.rpc.context import Context
from telesrv.rpc.convert.dialogs import list_hash
from telesrv.rpc.convert.messages import message_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_of, peer_to_tl
from telesrv.rpc.convert.scheduled import scheduled_to_tl, scheduled_user_ids
from telesrv.rpc.convert.updates import carrier
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl, users_to_tl
from telesrv.store.scheduled import Scheduled
from telesrv.tl import functions, types

_MAX_IDS: Final = MAX_PER_CHAT


def send_time(ctx: Context, schedule_date: int | None) -> int:
    """Returns when a message is to be sent; 0: now, as also for a time that has passed. WHEN_ONLINE: as soon
    as the other side is online.

    Raises:
        RpcError: 400 SCHEDULE_DATE_INVALID, SCHEDULE_DATE_TOO_LATE.

    *Spec: Scheduled messages*
    """
    if not schedule_date:
        return 0
    if schedule_date < 0:
        raise bad_request("SCHEDULE_DATE_INVALID")
    if schedule_date == WHEN_ONLINE:
        return schedule_date
    if schedule_date > ctx.now() + MAX_AHEAD_S:
        raise bad_request("SCHEDULE_DATE_TOO_LATE")
    return schedule_date if schedule_date > ctx.now() else 0


async def schedule_all(ctx: Context, requests: Iterable[SendRequest], at: int) -> types.Updates:
    """Puts messages on the caller's list, in their order.

    Raises:
        DomainError: of the first that cannot be put there; those before it stay.

    *Spec: Scheduled messages*
    """
    return await _added(ctx, [await ctx.store.scheduled.add(request, at) for request in requests])


async def scheduled_before(ctx: Context, requests: Iterable[SendRequest]) -> types.Updates:
    """Answers a repeat of a call whose time has passed as that call was answered.

    Raises:
        RandomIdConflict: not all of this was to be sent later.

    *Spec: Scheduled messages*
    """
    scheduled: list[Scheduled] = []
    for request in requests:
        known = await ctx.store.scheduled.known(request)
        if known is None:
            raise RandomIdConflict
        scheduled.append(known)
    return await _added(ctx, scheduled)


async def _added(ctx: Context, scheduled: Sequence[Scheduled]) -> types.Updates:
    updates: list[types.TypeUpdate] = [
        types.UpdateMessageID(id=one.message.scheduled_id, random_id=one.message.random_id)
        for one in scheduled
    ]
    return await _updates(ctx, scheduled, updates)


async def edit_scheduled(
    ctx: Context,
    request: functions.messages.EditMessage,
    peer: Peer,
    formatted: FormattedText | None,
) -> types.Updates:
    """Gives a message that waits another text, another time, or both.

    Raises:
        RpcError: 400 MESSAGE_ID_INVALID, and as of `send_time`.

    *Spec: messages.editMessage*
    """
    at = send_time(ctx, request.schedule_date)
    edited = await ctx.store.scheduled.edit(
        ctx.user_id,
        peer,
        request.id,
        text=None if formatted is None else formatted.text,
        entities=() if formatted is None else formatted.entities,
        schedule_date=at or ctx.now(),
        date=ctx.now(),
        origin=ctx.origin,
    )
    return await _updates(ctx, [edited], [])


async def _updates(
    ctx: Context, scheduled: Sequence[Scheduled], first: Sequence[types.TypeUpdate]
) -> types.Updates:
    updates = list(first)
    for one in scheduled:
        message = one.message
        updates.append(types.UpdateNewScheduledMessage(message=scheduled_to_tl(message)))
        if not message.waits:
            peer = peer_to_tl(message.peer)
            updates.append(types.UpdateDeleteScheduledMessages(peer=peer, messages=[message.scheduled_id]))
        updates += _carriers(one.event)
    shown = set[int]().union(*(scheduled_user_ids(one.message) for one in scheduled))
    return await updates_to_tl(ctx, updates, shown)


def _carriers(event: Event | None) -> list[types.TypeUpdate]:
    """Returns what takes the caller's own client past an event whose updates have no pts.

    *Spec: Working with Updates*
    """
    if event is None:
        return []
    return [carrier(event.pts, event.pts_count)]


@handler(functions.messages.GetScheduledHistory)
async def get_scheduled_history(ctx: Context, request: functions.messages.GetScheduledHistory) -> object:
    """Returns the messages of a chat that wait.

    Raises:
        RpcError: 400 PEER_ID_INVALID.

    *Spec: messages.getScheduledHistory*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    waiting = await ctx.store.scheduled.waiting(ctx.user_id, peer)
    if request.hash and request.hash == _hash(waiting):
        return types.messages.MessagesNotModified(count=len(waiting))
    return await _messages(ctx, waiting)


@handler(functions.messages.GetScheduledMessages)
async def get_scheduled_messages(ctx: Context, request: functions.messages.GetScheduledMessages) -> object:
    """Returns those of the messages named that wait.

    Raises:
        RpcError: 400 PEER_ID_INVALID, LIMIT_INVALID.

    *Spec: messages.getScheduledMessages*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    return await _messages(ctx, await ctx.store.scheduled.waiting(ctx.user_id, peer, _ids(request.id)))


@handler(functions.messages.SendScheduledMessages)
async def send_scheduled_messages(ctx: Context, request: functions.messages.SendScheduledMessages) -> object:
    """Sends messages now that were to be sent later.

    Raises:
        RpcError: 400 PEER_ID_INVALID, LIMIT_INVALID, MESSAGE_ID_INVALID when none of them waits.

    *Spec: messages.sendScheduledMessages*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    dispatched = await ctx.store.due.send(ctx.user_id, peer, _ids(request.id), origin=ctx.origin)
    if not dispatched:
        raise bad_request("MESSAGE_ID_INVALID")
    updates: list[types.TypeUpdate] = []
    for one in dispatched:
        if one.sent is not None and not one.sent.duplicate:
            message = message_to_tl(one.sent.box)
            updates.append(
                types.UpdateNewMessage(message=message, pts=one.sent.pts, pts_count=one.sent.pts_count)
            )
    for one in dispatched:
        updates.append(
            types.UpdateDeleteScheduledMessages(
                peer=peer_to_tl(peer),
                messages=[one.message.scheduled_id],
                sent_messages=None if one.sent is None else [one.sent.box.box_id],
            )
        )
        updates += _carriers(one.event)
    shown = user_ids_of(one.sent.box for one in dispatched if one.sent is not None) | {peer.id}
    return await updates_to_tl(ctx, updates, shown)


@handler(functions.messages.DeleteScheduledMessages)
async def delete_scheduled_messages(
    ctx: Context, request: functions.messages.DeleteScheduledMessages
) -> object:
    """Takes messages off the list; those on their way are sent all the same.

    Raises:
        RpcError: 400 PEER_ID_INVALID, LIMIT_INVALID.

    *Spec: messages.deleteScheduledMessages*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    gone, event = await ctx.store.scheduled.delete(
        ctx.user_id, peer, _ids(request.id), date=ctx.now(), origin=ctx.origin
    )
    updates: list[types.TypeUpdate] = []
    if gone:
        updates.append(types.UpdateDeleteScheduledMessages(peer=peer_to_tl(peer), messages=list(gone)))
    updates += _carriers(event)
    return await updates_to_tl(ctx, updates, [peer.id])


def _ids(ids: Sequence[int]) -> Sequence[int]:
    if len(ids) > _MAX_IDS:
        raise bad_request("LIMIT_INVALID")
    return ids


async def _messages(ctx: Context, waiting: Sequence[ScheduledMessage]) -> types.messages.Messages:
    shown = set[int]().union(*map(scheduled_user_ids, waiting))
    users = await users_to_tl(ctx, shown)
    messages: list[types.TypeMessage] = [scheduled_to_tl(message) for message in waiting]
    return types.messages.Messages(messages=messages, topics=[], chats=[], users=users)


def _hash(waiting: Iterable[ScheduledMessage]) -> int:
    numbers: list[int] = []
    for message in waiting:
        numbers += (message.scheduled_id, message.edit_date or 0, message.schedule_date)
    return list_hash(numbers)
