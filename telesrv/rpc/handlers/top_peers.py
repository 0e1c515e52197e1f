"""Whom the caller writes to most.

*Spec: Top peer rating*
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telesrv.domain.peers import MAX_ID
from telesrv.domain.top_peers import MAX_TOP
from telesrv.rpc.convert.dialogs import list_hash
from telesrv.rpc.convert.peers import peer_of, peer_to_tl
from telesrv.rpc.convert.users import user_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context


@handler(functions.contacts.GetTopPeers)
async def get_top_peers(ctx: Context, request: functions.contacts.GetTopPeers) -> types.contacts.TypeTopPeers:
    """Answers the correspondents whom the caller writes to most; nobody is rated in the other categories."""
    asked = (
        request.correspondents
        or request.bots_pm
        or request.bots_inline
        or request.phone_calls
        or request.forward_users
        or request.forward_chats
        or request.groups
        or request.channels
        or request.bots_app
        or request.bots_guestchat
    )
    if not asked:
        raise bad_request("TYPES_EMPTY")
    rated = await ctx.store.top_peers.correspondents(ctx.user_id)
    if rated is None:
        return types.contacts.TopPeersDisabled()
    views = await ctx.store.users.views(ctx.user_id, [top.peer.id for top in rated])
    rated = [top for top in rated if top.peer.id in views and not views[top.peer.id].user.deleted]
    offset, limit = min(max(request.offset, 0), MAX_ID), min(max(request.limit, 0), MAX_TOP)
    shown = rated[offset : offset + (limit or MAX_TOP)] if request.correspondents else []
    if request.hash and request.hash == list_hash(top.peer.id for top in shown):
        return types.contacts.TopPeersNotModified()
    categories: list[types.TypeTopPeerCategoryPeers] = []
    if shown:
        peers: list[types.TypeTopPeer] = [
            types.TopPeer(peer=peer_to_tl(top.peer), rating=top.rating) for top in shown
        ]
        categories.append(
            types.TopPeerCategoryPeers(
                category=types.TopPeerCategoryCorrespondents(), count=len(rated), peers=peers
            )
        )
    users: list[types.TypeUser] = [user_to_tl(views[top.peer.id], ctx.secret, ctx.now()) for top in shown]
    return types.contacts.TopPeers(categories=categories, chats=[], users=users)


@handler(functions.contacts.ResetTopPeerRating)
async def reset_top_peer_rating(ctx: Context, request: functions.contacts.ResetTopPeerRating) -> bool:
    """Has one peer rated anew; nobody is rated in other categories than that of correspondents."""
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    if isinstance(request.category, types.TopPeerCategoryCorrespondents):
        await ctx.store.top_peers.reset(ctx.user_id, peer)
    return True


@handler(functions.contacts.ToggleTopPeers)
async def toggle_top_peers(ctx: Context, request: functions.contacts.ToggleTopPeers) -> bool:
    """Switches the rating on or off, for all devices of the caller; it begins anew."""
    await ctx.store.top_peers.toggle(ctx.user_id, request.enabled)
    return True
