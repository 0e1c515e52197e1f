"""The caller's list of chats.

*Spec: Dialogs; Pagination in the API*
"""

from __future__ import annotations

from collections.abc import Mapping

from telesrv.domain.dialogs import ARCHIVE, MAIN, Archive, Dialog, DialogPage
from telesrv.domain.filters import FIRST_ID, LAST_ID
from telesrv.domain.messages import MAX_PAGE
from telesrv.domain.notify import NotifySettings
from telesrv.domain.peers import Peer
from telesrv.rpc.context import Context
from telesrv.rpc.convert.dialogs import archive_to_tl, dialog_to_tl, dialog_user_ids, dialogs_hash
from telesrv.rpc.convert.messages import message_to_tl, user_ids_of
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.convert.updates import state_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.handlers.messages import page_limit
from telesrv.rpc.registry import handler
from telesrv.rpc.views import users_to_tl
from telesrv.tl import functions, types


@handler(functions.messages.GetDialogs)
async def get_dialogs(ctx: Context, request: functions.messages.GetDialogs) -> object:
    """Returns one page of chats, newest first, with their top messages and users.

    The list is the main one, the archive, that of a filter of the caller's, or, without folder_id, all chats.
    A first page that holds the whole list is ``messages.dialogs``; any other is a slice, the last one empty.
    The hash is that of the whole list. The archive is no entry of it: clients look for that among the pinned
    chats, and some know nothing but chats here.

    Raises:
        RpcError: 400 PEER_ID_INVALID, FOLDER_ID_INVALID.

    *Spec: messages.getDialogs*
    """
    folder_id, rules = request.folder_id, None
    if folder_id is not None and folder_id not in (MAIN, ARCHIVE):
        if FIRST_ID <= folder_id <= LAST_ID:
            rules = await ctx.store.filters.get(ctx.user_id, folder_id)
        if rules is None:
            raise bad_request("FOLDER_ID_INVALID")
    offset_peer: Peer | None = None
    if not isinstance(request.offset_peer, types.InputPeerEmpty):
        offset_peer = peer_of(request.offset_peer, ctx.user_id, ctx.secret)
    offset_date, offset_id = max(request.offset_date, 0), max(request.offset_id, 0)
    limit = page_limit(request.limit)
    first = not offset_date and not offset_id and offset_peer is None
    if first and request.hash:
        whole = await ctx.store.dialogs.whole(
            ctx.user_id,
            folder_id=folder_id,
            exclude_pinned=request.exclude_pinned,
            rules=rules,
            now=ctx.now(),
        )
        if request.hash == dialogs_hash(whole, *await _settings(ctx, whole)):
            return types.messages.DialogsNotModified(count=whole.total)
    page = await ctx.store.dialogs.page(
        ctx.user_id,
        folder_id=folder_id,
        offset_date=offset_date,
        offset_id=offset_id,
        offset_peer=offset_peer,
        limit=limit,
        exclude_pinned=request.exclude_pinned,
        rules=rules,
        now=ctx.now(),
    )
    dialogs, messages = await _shown(ctx, page)
    users = await users_to_tl(ctx, dialog_user_ids(page))
    if first and len(page.dialogs) < limit:
        return types.messages.Dialogs(dialogs=dialogs, messages=messages, chats=[], users=users)
    return types.messages.DialogsSlice(
        count=page.total, dialogs=dialogs, messages=messages, chats=[], users=users
    )


async def _shown(ctx: Context, page: DialogPage) -> tuple[list[types.TypeDialog], list[types.TypeMessage]]:
    notify, periods = await _settings(ctx, page)
    dialogs: list[types.TypeDialog] = [
        dialog_to_tl(
            dialog, page.drafts.get(dialog.peer), notify.get(dialog.peer), periods.get(dialog.peer.id)
        )
        for dialog in page.dialogs
    ]
    messages: list[types.TypeMessage] = [
        message_to_tl(page.top_boxes[dialog.top_box_id])
        for dialog in page.dialogs
        if dialog.top_box_id in page.top_boxes
    ]
    return dialogs, messages


async def _settings(
    ctx: Context, page: DialogPage
) -> tuple[Mapping[Peer, NotifySettings], Mapping[int, int]]:
    """Returns how the caller is notified of the chats that have settings of their own, and the times after
    which messages go, by the other side."""
    peers = [dialog.peer for dialog in page.dialogs]
    notify = await ctx.store.notify.for_peers(ctx.user_id, peers)
    return notify, await ctx.store.ttl.periods(ctx.user_id, [peer.id for peer in peers])


@handler(functions.messages.GetPinnedDialogs)
async def get_pinned_dialogs(ctx: Context, request: functions.messages.GetPinnedDialogs) -> object:
    """Returns the pinned chats of a folder in their order, with the state that they belong to.

    Those of the main list begin with the archive as an entry when there is anything in it.

    Raises:
        RpcError: 400 FOLDER_ID_INVALID.

    *Spec: messages.getPinnedDialogs*
    """
    if request.folder_id not in (MAIN, ARCHIVE):
        raise bad_request("FOLDER_ID_INVALID")
    page = await ctx.store.dialogs.pinned(ctx.user_id, request.folder_id)
    archive = None
    if request.folder_id == MAIN:
        archive = await ctx.store.dialogs.archive(ctx.user_id, ctx.now())
    return await _peer_dialogs(ctx, page, archive)


@handler(functions.messages.GetPeerDialogs)
async def get_peer_dialogs(ctx: Context, request: functions.messages.GetPeerDialogs) -> object:
    """Returns the chats with these peers, in the order asked for; an empty one for a peer never written to.

    Raises:
        RpcError: 400 PEER_ID_INVALID, INPUT_PEERS_EMPTY, LIMIT_INVALID, FOLDER_ID_INVALID.

    *Spec: messages.getPeerDialogs*
    """
    if not request.peers:
        raise bad_request("INPUT_PEERS_EMPTY")
    if len(request.peers) > MAX_PAGE:
        raise bad_request("LIMIT_INVALID")
    peers: dict[Peer, None] = {}
    for named in request.peers:
        if not isinstance(named, types.InputDialogPeer):
            raise bad_request("FOLDER_ID_INVALID")
        peers[peer_of(named.peer, ctx.user_id, ctx.secret)] = None
    page = await ctx.store.dialogs.for_peers(ctx.user_id, list(peers))
    known = {dialog.peer: dialog for dialog in page.dialogs}
    dialogs = tuple(known.get(peer) or Dialog(ctx.user_id, peer, top_box_id=0, top_date=0) for peer in peers)
    return await _peer_dialogs(ctx, DialogPage(dialogs, page.top_boxes, len(dialogs), page.drafts))


async def _peer_dialogs(
    ctx: Context, page: DialogPage, archive: Archive | None = None
) -> types.messages.PeerDialogs:
    dialogs, messages = await _shown(ctx, page)
    shown = dialog_user_ids(page)
    if archive is not None:
        boxes = await ctx.store.messages.get(ctx.user_id, [archive.top_box_id])
        dialogs.insert(0, archive_to_tl(archive))
        messages += [message_to_tl(box) for box in boxes.values()]
        shown |= user_ids_of(boxes.values()) | {archive.peer.id}
    users = await users_to_tl(ctx, shown)
    state = await ctx.store.updates.state(ctx.user_id)
    return types.messages.PeerDialogs(
        dialogs=dialogs, messages=messages, chats=[], users=users, state=state_to_tl(state)
    )
