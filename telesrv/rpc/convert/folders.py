"""Events of chats that moved to the archive or back.

*Spec: updateFolderPeers*
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from telesrv.domain.filters import peers_from_json
from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import PeerType
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.rpc.convert.updates import Views, converts, names
from telesrv.tl import types


@converts(EventKind.FOLDER_PEERS)
def _folder_peers(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    stored = (event.payload or {}).get("peers", ())
    moved: list[types.TypeFolderPeer] = [
        types.FolderPeer(peer=peer_to_tl(peer), folder_id=entry[2])
        for peer, entry in zip(peers_from_json(stored), stored, strict=True)
    ]
    return [types.UpdateFolderPeers(folder_peers=moved, pts=event.pts, pts_count=event.pts_count)]


@names(EventKind.FOLDER_PEERS)
def _named(payload: Mapping[str, Any]) -> Iterable[int]:
    return [peer.id for peer in peers_from_json(payload.get("peers", ())) if peer.type is PeerType.USER]
