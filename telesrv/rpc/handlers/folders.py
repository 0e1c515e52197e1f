"""The archive.

*Spec: Folders (Peer folders)*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telesrv.domain.dialogs import ARCHIVE, MAIN
from telesrv.domain.peers import Peer
from telesrv.rpc.convert.peers import peer_of
from telesrv.rpc.convert.updates import event_user_ids, pushed_updates
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

MAX_PEERS: Final = 100
"""Chats moved by one call."""


@handler(functions.folders.EditPeerFolders)
async def edit_peer_folders(ctx: Context, request: functions.folders.EditPeerFolders) -> types.Updates:
    """Moves chats to the archive or back to the main list; those that stand there already are passed over.

    Raises:
        RpcError: 400 FOLDER_ID_EMPTY, FOLDER_ID_INVALID, LIMIT_INVALID, PEER_ID_INVALID.

    *Spec: folders.editPeerFolders*
    """
    if not request.folder_peers:
        raise bad_request("FOLDER_ID_EMPTY")
    if len(request.folder_peers) > MAX_PEERS:
        raise bad_request("LIMIT_INVALID")
    folders: dict[Peer, int] = {}
    for named in request.folder_peers:
        if named.folder_id not in (MAIN, ARCHIVE):
            raise bad_request("FOLDER_ID_INVALID")
        folders[peer_of(named.peer, ctx.user_id, ctx.secret)] = named.folder_id
    events = await ctx.store.folders.edit(ctx.user_id, folders, origin=ctx.origin)
    updates: list[types.TypeUpdate] = []
    shown: set[int] = set()
    for event in events:
        updates += pushed_updates(event, None, {})
        shown |= event_user_ids(event, None)
    return await updates_to_tl(ctx, updates, shown)
