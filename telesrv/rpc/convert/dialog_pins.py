"""Events of pinned chats.

*Spec: updateDialogPinned; updatePinnedDialogs*
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from telesrv.domain.filters import peers_from_json
from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import PeerType
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.rpc.convert.updates import Views, converts, event_peer, names
from telesrv.tl import types


@converts(EventKind.DIALOG_PINNED)
def _dialog_pinned(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    payload = event.payload or {}
    return [
        types.UpdateDialogPinned(
            pinned=bool(payload.get("pinned")),
            folder_id=payload.get("folder_id") or None,
            peer=types.DialogPeer(peer=event_peer(event)),
        )
    ]


@converts(EventKind.PINNED_DIALOGS)
def _pinned_dialogs(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    payload = event.payload or {}
    order: list[types.TypeDialogPeer] = [
        types.DialogPeer(peer=peer_to_tl(peer)) for peer in peers_from_json(payload.get("order", ()))
    ]
    return [types.UpdatePinnedDialogs(folder_id=payload.get("folder_id") or None, order=order)]


@names(EventKind.PINNED_DIALOGS)
def _named(payload: Mapping[str, Any]) -> Iterable[int]:
    return [peer.id for peer in peers_from_json(payload.get("order", ())) if peer.type is PeerType.USER]
