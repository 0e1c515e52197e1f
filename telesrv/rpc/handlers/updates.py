"""What a device missed while it was away.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections import Counter

from telesrv.domain.messages import MAX_PAGE
from telesrv.domain.peers import Peer
from telesrv.domain.updates import DeviceState, Difference, EventKind
from telesrv.rpc.context import Context
from telesrv.rpc.convert.messages import message_to_tl
from telesrv.rpc.convert.peers import peer_from_tl
from telesrv.rpc.convert.updates import SEQ, event_updates, event_user_ids, state_to_tl
from telesrv.rpc.convert.users import user_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types


@handler(functions.updates.GetState)
async def get_state(ctx: Context, request: functions.updates.GetState) -> object:
    """Returns the state up to which everything is committed: what comes later is pushed or in a difference.

    *Spec: updates.getState*
    """
    state = await ctx.store.updates.state(ctx.user_id)
    await _note_device(ctx, state.pts)
    return state_to_tl(state)


@handler(functions.updates.GetDifference)
async def get_difference(ctx: Context, request: functions.updates.GetDifference) -> object:
    """Returns everything that happened after the client's pts, at most a page at a time, nothing left out.

    It never answers differenceTooLong, after which some clients stop; pts_total_limit is not needed then. A
    client whose pts lies beyond the log gets the log's own state back.

    *Spec: updates.getDifference*
    """
    asked = request.pts_limit or MAX_PAGE
    limit = min(asked, MAX_PAGE) if asked > 0 else MAX_PAGE
    difference = await ctx.store.updates.difference(ctx.user_id, request.pts, limit)
    await _note_device(ctx, min(max(request.pts, 0), difference.state.pts))
    if not difference.events and difference.final and difference.state.pts == request.pts:
        return types.updates.DifferenceEmpty(date=difference.state.date, seq=SEQ)
    return await _difference_to_tl(ctx, difference)


async def _note_device(ctx: Context, pts: int) -> None:
    """Keeps how far the device has come by its own account: a difference that it was only offered, and may
    never have received, does not count.
    """
    await ctx.store.updates.save_device_state(
        ctx.caller.auth_key_id, ctx.user_id, DeviceState(pts, ctx.now())
    )


def _incoming(difference: Difference) -> Counter[Peer]:
    """Returns how many incoming messages of each chat the difference brings.

    Clients take its messages first and its updates after them, so an unread count in it has to count the
    messages that came after it too.
    """
    boxes = (
        difference.boxes.get(event.box_id)
        for event in difference.events
        if event.kind is EventKind.NEW_MESSAGE
    )
    return Counter(box.peer for box in boxes if box is not None and not box.outgoing)


async def _difference_to_tl(
    ctx: Context, difference: Difference
) -> types.updates.Difference | types.updates.DifferenceSlice:
    shown: set[int] = set()
    for event in difference.events:
        shown |= event_user_ids(event, difference.boxes.get(event.box_id))
    views = await ctx.store.users.views(ctx.user_id, shown) if shown else {}
    messages: list[types.TypeMessage] = []
    others: list[types.TypeUpdate] = []
    coming = _incoming(difference)
    for event in difference.events:
        box = difference.boxes.get(event.box_id)
        if event.kind is not EventKind.NEW_MESSAGE:
            updates = event_updates(event, box, views)
            for update in updates:
                if isinstance(update, types.UpdateReadHistoryInbox):
                    update.still_unread_count += coming[peer_from_tl(update.peer)]
            others += updates
            continue
        if box is None:
            continue
        if not box.outgoing:
            coming[box.peer] -= 1
        messages.append(message_to_tl(box))
        if event.random_id:
            others.append(types.UpdateMessageID(id=box.box_id, random_id=event.random_id))
    users: list[types.TypeUser] = [
        user_to_tl(views[user_id], ctx.secret, ctx.now()) for user_id in sorted(views)
    ]
    state = state_to_tl(difference.state)
    if difference.final:
        return types.updates.Difference(
            new_messages=messages,
            new_encrypted_messages=[],
            other_updates=others,
            chats=[],
            users=users,
            state=state,
        )
    return types.updates.DifferenceSlice(
        new_messages=messages,
        new_encrypted_messages=[],
        other_updates=others,
        chats=[],
        users=users,
        intermediate_state=state,
    )


@handler(functions.updates.GetChannelDifference)
async def get_channel_difference(ctx: Context, request: functions.updates.GetChannelDifference) -> object:
    """Refuses: there are no channels.

    Raises:
        RpcError: 400 CHANNEL_INVALID.

    *Spec: updates.getChannelDifference*
    """
    raise bad_request("CHANNEL_INVALID")
