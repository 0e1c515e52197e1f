"""The action bar above a chat.

*Spec: Action bar*
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telesrv.domain.peers import SERVICE_USER_ID
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.convert.users import peer_settings_to_tl, user_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import view_of
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context


@handler(functions.messages.GetPeerSettings)
async def get_peer_settings(
    ctx: Context, request: functions.messages.GetPeerSettings
) -> types.messages.PeerSettings:
    """Answers the action bar of one chat."""
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    view = await view_of(ctx, peer.id)
    if view is None:
        raise bad_request("PEER_ID_INVALID")
    return types.messages.PeerSettings(
        settings=peer_settings_to_tl(view), chats=[], users=[user_to_tl(view, ctx.secret, ctx.now())]
    )


@handler(functions.messages.HidePeerSettingsBar)
async def hide_peer_settings_bar(ctx: Context, request: functions.messages.HidePeerSettingsBar) -> bool:
    """Closes the action bar of one chat on all devices of the caller. It stays closed until the peer is taken
    into the address book or out of it.
    """
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    if peer.id in (ctx.user_id, SERVICE_USER_ID):
        return True
    if await view_of(ctx, peer.id) is None:
        raise bad_request("PEER_ID_INVALID")
    await ctx.store.action_bars.hide(ctx.user_id, peer.id)
    return True
