"""Search among the caller's own messages.

*Spec: messages.search; messages.searchGlobal; Pagination in the API*
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from telesrv.domain.messages import MAX_PAGE, MessageBox
from telesrv.domain.peers import Peer
from telesrv.domain.search import Found, Query, SearchRequest
from telesrv.rpc.context import Context
from telesrv.rpc.convert.dialogs import messages_hash
from telesrv.rpc.convert.messages import message_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.errors import bad_request
from telesrv.rpc.handlers.messages import page_limit
from telesrv.rpc.registry import handler
from telesrv.rpc.views import users_to_tl
from telesrv.tl import functions, types

SEARCHES_PER_MINUTE: Final = 240
MAX_FILTERS: Final = 32
_FOLDERS: Final = (0, 1)
_NOTHING: Final = Query("")

_SEARCHED: Final = (
    types.InputMessagesFilterEmpty,
    types.InputMessagesFilterPinned,
    types.InputMessagesFilterUrl,
)
"""What there are messages of; the other filters ask for what no message here is, and truly find nothing."""


@handler(functions.messages.Search)
async def search(ctx: Context, request: functions.messages.Search) -> object:
    """Finds messages of a chat, or without one of all chats: by words, author, dates, pins and links.

    Raises:
        RpcError: 400 PEER_ID_INVALID; 420 FLOOD_WAIT.

    *Spec: messages.search*
    """
    query = Query(request.q)
    author = None
    if not isinstance(request.from_id, types.InputPeerEmpty | None):
        author = peer_of(request.from_id, ctx.user_id, ctx.secret)
    bare = query.empty and author is None and isinstance(request.filter, types.InputMessagesFilterEmpty)
    everywhere = isinstance(request.peer, types.InputPeerEmpty) and not bare
    peer = None if everywhere else peer_of(request.peer, ctx.user_id, ctx.secret)
    outgoing = None if author is None else author.id == ctx.user_id
    if (
        not isinstance(request.filter, _SEARCHED)
        or (author is not None and peer is not None and author.id not in (ctx.user_id, peer.id))
        or request.top_msg_id
        or request.saved_peer_id is not None
        or request.saved_reaction
    ):
        return types.messages.Messages(messages=[], topics=[], chats=[], users=[])
    if peer is None and author is not None and not outgoing:
        peer = author  # in private chats somebody else writes in one chat only
    await ctx.store.limits.hit("messages:search", ctx.user_id, SEARCHES_PER_MINUTE, 60)
    asked = SearchRequest(
        owner=ctx.user_id,
        query=query,
        peer=peer,
        outgoing=outgoing,
        links=isinstance(request.filter, types.InputMessagesFilterUrl),
        pinned=isinstance(request.filter, types.InputMessagesFilterPinned),
        min_date=request.min_date,
        max_date=request.max_date,
        offset_id=request.offset_id,
        add_offset=request.add_offset,
        limit=page_limit(request.limit),
        max_id=request.max_id,
        min_id=request.min_id,
    )
    if peer is not None and asked.pinned:
        found = await _pinned(ctx, asked, peer)
    else:
        found = await _find(ctx, asked)
    if request.hash and request.hash == messages_hash(found.boxes):
        return types.messages.MessagesNotModified(count=found.total)
    return await _answer(ctx, found, peer)


async def _find(ctx: Context, asked: SearchRequest) -> Found:
    """Returns what is found; what asks for nothing in particular is a page of the chat, counted for sure."""
    peer = asked.peer
    bare = asked.query.empty and asked.outgoing is None and not asked.links
    if peer is None or not bare or asked.min_date > 0 or asked.max_date > 0:
        return await ctx.store.search.find(asked)
    page = await ctx.store.messages.history(
        ctx.user_id,
        peer,
        offset_id=max(asked.offset_id, 0),
        add_offset=asked.add_offset,
        limit=asked.limit,
        max_id=max(asked.max_id, 0),
        min_id=max(asked.min_id, 0),
    )
    return Found(page.boxes, page.total, 0)


async def _pinned(ctx: Context, asked: SearchRequest, peer: Peer) -> Found:
    """Returns a page of the pinned messages of a chat; with words, of the newest hundred that have them."""
    pinned = ctx.store.pinned_messages
    if asked.query.empty and asked.outgoing is None and asked.min_date <= 0 and asked.max_date <= 0:
        page = await pinned.page(
            ctx.user_id,
            peer,
            offset_id=max(asked.offset_id, 0),
            add_offset=asked.add_offset,
            limit=asked.limit,
            max_id=max(asked.max_id, 0),
            min_id=max(asked.min_id, 0),
        )
        return Found(page.boxes, page.total, 0)
    page = await pinned.page(ctx.user_id, peer, limit=MAX_PAGE)
    lower, upper = asked.min_id, asked.max_id
    matching = [
        box
        for box in page.boxes
        if _is_pinned_match(asked, box) and box.box_id > lower and not 0 < upper <= box.box_id
    ]
    newer = sum(1 for box in matching if 0 < asked.offset_id <= box.box_id)
    start = max(0, newer + max(-MAX_PAGE, asked.add_offset))
    inexact = page.total > len(page.boxes)
    return Found(tuple(matching[start : start + asked.limit]), len(matching), start, inexact)


def _is_pinned_match(asked: SearchRequest, box: MessageBox) -> bool:
    return (
        asked.query.matches(box.text)
        and asked.outgoing in (None, box.outgoing)
        and (asked.min_date <= 0 or box.date > asked.min_date)
        and (asked.max_date <= 0 or box.date < asked.max_date)
    )


async def _answer(ctx: Context, found: Found, peer: Peer | None, *, rated: bool = False) -> object:
    """Returns what was found, with its accounts.

    Args:
        rated: with the rate by which the next page is asked for; on the last page too, since there are
            clients that ask once more by whatever stands there.
    """
    users = await users_to_tl(ctx, user_ids_of(found.boxes) | ({peer.id} if peer is not None else set()))
    messages: list[types.TypeMessage] = [message_to_tl(box) for box in found.boxes]
    if len(messages) == found.total and not found.inexact:
        return types.messages.Messages(messages=messages, topics=[], chats=[], users=users)
    return types.messages.MessagesSlice(
        inexact=found.inexact,
        count=max(found.total, len(messages)),
        next_rate=found.boxes[-1].date if rated and found.boxes else None,
        offset_id_offset=found.newer or None,
        messages=messages,
        topics=[],
        chats=[],
        users=users,
    )


@handler(functions.messages.SearchGlobal)
async def search_global(ctx: Context, request: functions.messages.SearchGlobal) -> object:
    """Finds messages of all of the caller's chats, or of those of a folder, newest first.

    There are only private chats: what asks for groups or channels only finds nothing.

    Raises:
        RpcError: 400 SEARCH_QUERY_EMPTY when neither words nor a kind of message is asked for,
            FOLDER_ID_INVALID; 420 FLOOD_WAIT.

    *Spec: messages.searchGlobal*
    """
    if request.folder_id is not None and request.folder_id not in _FOLDERS:
        raise bad_request("FOLDER_ID_INVALID")
    query = Query(request.q)
    if query.empty and isinstance(request.filter, types.InputMessagesFilterEmpty):
        raise bad_request("SEARCH_QUERY_EMPTY")
    if (
        request.broadcasts_only
        or request.groups_only
        or request.community is not None
        or not isinstance(request.filter, _SEARCHED)
    ):
        return types.messages.Messages(messages=[], topics=[], chats=[], users=[])
    await ctx.store.limits.hit("messages:search", ctx.user_id, SEARCHES_PER_MINUTE, 60)
    asked = SearchRequest(
        owner=ctx.user_id,
        query=query,
        links=isinstance(request.filter, types.InputMessagesFilterUrl),
        pinned=isinstance(request.filter, types.InputMessagesFilterPinned),
        folder_id=request.folder_id,
        min_date=request.min_date,
        max_date=request.max_date,
        offset_id=request.offset_id,
        limit=page_limit(request.limit),
    )
    if request.offset_id <= 0 and request.offset_rate > 0:
        bound = request.offset_rate
        asked = replace(asked, max_date=min(bound, asked.max_date) if asked.max_date > 0 else bound)
    return await _answer(ctx, await ctx.store.search.find(asked), None, rated=True)


@handler(functions.messages.GetSearchCounters)
async def get_search_counters(
    ctx: Context, request: functions.messages.GetSearchCounters
) -> list[types.messages.SearchCounter]:
    """Counts the messages of a chat by kind: the pinned ones and those with links; there are no others.

    Raises:
        RpcError: 400 PEER_ID_INVALID.

    *Spec: messages.getSearchCounters*
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    aside = bool(request.top_msg_id) or request.saved_peer_id is not None
    known: dict[type, tuple[int, bool]] = {}
    counters = []
    for kind in request.filters[:MAX_FILTERS]:
        if type(kind) not in known:
            known[type(kind)] = (0, False) if aside else await _count(ctx, peer, kind)
        count, inexact = known[type(kind)]
        counters.append(types.messages.SearchCounter(filter=kind, count=count, inexact=inexact))
    return counters


async def _count(ctx: Context, peer: Peer, kind: types.TypeMessagesFilter) -> tuple[int, bool]:
    if isinstance(kind, types.InputMessagesFilterPinned):
        return await ctx.store.pinned_messages.count(ctx.user_id, peer), False
    if isinstance(kind, types.InputMessagesFilterUrl):
        found = await ctx.store.search.find(
            SearchRequest(owner=ctx.user_id, query=_NOTHING, peer=peer, links=True)
        )
        return found.total, found.inexact
    return 0, False
