"""Dialog filters of the caller.

The events of these changes have pts and the answers have none, so they come to the calling session as well.

*Spec: Folders*
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from telesrv.domain.filters import (
    FIRST_ID,
    LAST_ID,
    MAX_EMOTICON,
    MAX_PEERS,
    MAX_TITLE,
    DialogFilter,
    suggested,
)
from telesrv.domain.peers import Peer, access_hash
from telesrv.rpc import fields
from telesrv.rpc.convert.filters import filter_to_tl, filters_to_tl
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

MAX_COLOR: Final = 20
_DESCRIPTIONS: Final = {
    "Unread": "New messages from all chats.",
    "Personal": "Only messages from personal chats.",
}


@handler(functions.messages.GetDialogFilters)
async def get_dialog_filters(
    ctx: Context, request: functions.messages.GetDialogFilters
) -> types.messages.DialogFilters:
    """Answers the caller's filters in their order, the list of all chats among them.

    *Spec: messages.getDialogFilters*
    """
    return filters_to_tl(await ctx.store.filters.all(ctx.user_id), ctx.user_id, ctx.secret)


@handler(functions.messages.GetSuggestedDialogFilters)
async def get_suggested_dialog_filters(
    ctx: Context, request: functions.messages.GetSuggestedDialogFilters
) -> list[types.TypeDialogFilterSuggested]:
    """Answers filters that are useful to most people, without those that the caller has.

    *Spec: messages.getSuggestedDialogFilters*
    """
    known = await ctx.store.filters.all(ctx.user_id)
    return [
        types.DialogFilterSuggested(
            filter=filter_to_tl(filter_, lambda peer: access_hash(ctx.secret, ctx.user_id, peer)),
            description=_DESCRIPTIONS[filter_.title],
        )
        for filter_ in suggested(known.filters.values())
    ]


@handler(functions.messages.UpdateDialogFilter)
async def update_dialog_filter(ctx: Context, request: functions.messages.UpdateDialogFilter) -> bool:
    """Makes, changes or, without a filter in the call, deletes a filter.

    Raises:
        RpcError: 400 FILTER_ID_INVALID, FILTER_TITLE_EMPTY, MESSAGE_TOO_LONG for the title,
            FILTER_INCLUDE_EMPTY, FILTER_INCLUDE_TOO_MUCH, DIALOG_FILTERS_TOO_MUCH, FILTER_NOT_SUPPORTED for
            shared ones, PEER_ID_INVALID.

    *Spec: messages.updateDialogFilter*
    """
    if not FIRST_ID <= request.id <= LAST_ID:
        raise bad_request("FILTER_ID_INVALID")
    if request.filter is None:
        await ctx.store.filters.delete(ctx.user_id, request.id)
        return True
    if isinstance(request.filter, types.DialogFilterChatlist):
        raise bad_request("FILTER_NOT_SUPPORTED")
    if not isinstance(request.filter, types.DialogFilter):
        raise bad_request("FILTER_ID_INVALID")
    await ctx.store.filters.save(ctx.user_id, _filter(ctx, request.id, request.filter))
    return True


def _filter(ctx: Context, filter_id: int, given: types.DialogFilter) -> DialogFilter:
    title = fields.line(given.title.text)
    if not title:
        raise bad_request("FILTER_TITLE_EMPTY")
    if len(title) > MAX_TITLE:
        raise bad_request("MESSAGE_TOO_LONG")
    color = given.color
    if color is not None and not -1 <= color <= MAX_COLOR:
        raise bad_request("COLOR_INVALID")
    pinned = _peers(ctx, given.pinned_peers)
    filter_ = DialogFilter(
        id=filter_id,
        title=title,
        emoticon=fields.line(given.emoticon or "")[:MAX_EMOTICON] or None,
        color=color,
        title_noanimate=given.title_noanimate,
        contacts=given.contacts,
        non_contacts=given.non_contacts,
        groups=given.groups,
        broadcasts=given.broadcasts,
        bots=given.bots,
        exclude_muted=given.exclude_muted,
        exclude_read=given.exclude_read,
        exclude_archived=given.exclude_archived,
        pinned=pinned,
        included=tuple(peer for peer in _peers(ctx, given.include_peers) if peer not in pinned),
        excluded=_peers(ctx, given.exclude_peers),
    )
    if not filter_.named and not filter_.by_rule:
        raise bad_request("FILTER_INCLUDE_EMPTY")
    if len(filter_.named) > MAX_PEERS or len(filter_.excluded) > MAX_PEERS:
        raise bad_request("FILTER_INCLUDE_TOO_MUCH")
    return filter_


def _peers(ctx: Context, named: Sequence[types.TypeInputPeer]) -> tuple[Peer, ...]:
    if len(named) > 2 * MAX_PEERS:
        raise bad_request("FILTER_INCLUDE_TOO_MUCH")
    return tuple(dict.fromkeys(peer_of(peer, ctx.user_id, ctx.secret) for peer in named))


@handler(functions.messages.UpdateDialogFiltersOrder)
async def update_dialog_filters_order(
    ctx: Context, request: functions.messages.UpdateDialogFiltersOrder
) -> bool:
    """Puts the caller's filters in order; unknown ids are passed over, filters not named come last.

    Raises:
        RpcError: 400 LIMIT_INVALID.

    *Spec: messages.updateDialogFiltersOrder*
    """
    if len(request.order) > LAST_ID + 1:
        raise bad_request("LIMIT_INVALID")
    await ctx.store.filters.reorder(ctx.user_id, request.order)
    return True


@handler(functions.messages.ToggleDialogFilterTags)
async def toggle_dialog_filter_tags(ctx: Context, request: functions.messages.ToggleDialogFilterTags) -> bool:
    """Sets whether chats are tagged with the filters that they are in, for all devices of the caller.

    *Spec: messages.toggleDialogFilterTags*
    """
    await ctx.store.filters.toggle_tags(ctx.user_id, request.enabled)
    return True
