"""Dialog filters, and the events that tell of them.

A filter names its peers as a client names them to us, by access hash: an event has the hashes in its payload.

*Spec: Folders*
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from telesrv.domain.filters import DEFAULT_ID, DialogFilter, DialogFilters, filter_from_json
from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import Peer, PeerType, access_hash
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.updates import Views, converts, names
from telesrv.tl import types

_PEERS: Final = ("pinned", "included", "excluded")


def filter_to_tl(filter_: DialogFilter, hash_of: Callable[[Peer], int]) -> types.DialogFilter:
    """Returns the filter as its owner's clients have it.

    Args:
        hash_of: gives the owner's access hash of a peer.

    *Spec: Folders*
    """

    def named(peers: Iterable[Peer]) -> list[types.TypeInputPeer]:
        return [types.InputPeerUser(user_id=peer.id, access_hash=hash_of(peer)) for peer in peers]

    return types.DialogFilter(
        contacts=filter_.contacts,
        non_contacts=filter_.non_contacts,
        groups=filter_.groups,
        broadcasts=filter_.broadcasts,
        bots=filter_.bots,
        exclude_muted=filter_.exclude_muted,
        exclude_read=filter_.exclude_read,
        exclude_archived=filter_.exclude_archived,
        title_noanimate=filter_.title_noanimate,
        id=filter_.id,
        title=types.TextWithEntities(text=filter_.title, entities=[]),
        emoticon=filter_.emoticon,
        color=filter_.color,
        pinned_peers=named(filter_.pinned),
        include_peers=named(filter_.included),
        exclude_peers=named(filter_.excluded),
    )


def filters_to_tl(filters: DialogFilters, owner: int, secret: bytes) -> types.messages.DialogFilters:
    """Returns all filters in their order, the list of all chats among them.

    *Spec: messages.getDialogFilters*
    """
    shown: list[types.TypeDialogFilter] = [
        types.DialogFilterDefault()
        if filter_id == DEFAULT_ID
        else filter_to_tl(filters.filters[filter_id], lambda peer: access_hash(secret, owner, peer))
        for filter_id in filters.order
    ]
    return types.messages.DialogFilters(tags_enabled=filters.tags, filters=shown)


@converts(EventKind.DIALOG_FILTER)
def _dialog_filter(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    payload = event.payload or {}
    snapshot = payload.get("filter")
    if snapshot is None:
        return [types.UpdateDialogFilter(id=payload["id"])]
    hashes = {
        Peer(PeerType(entry[0]), entry[1]): entry[2] for name in _PEERS for entry in snapshot.get(name, ())
    }
    shown = filter_to_tl(filter_from_json(snapshot), hashes.__getitem__)
    return [types.UpdateDialogFilter(id=payload["id"], filter=shown)]


@converts(EventKind.DIALOG_FILTER_ORDER)
def _dialog_filter_order(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    return [types.UpdateDialogFilterOrder(order=list((event.payload or {}).get("order", ())))]


@converts(EventKind.DIALOG_FILTERS)
def _dialog_filters(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    return [types.UpdateDialogFilters()]


@names(EventKind.DIALOG_FILTER)
def _named(payload: Mapping[str, Any]) -> Iterable[int]:
    snapshot = payload.get("filter") or {}
    return [entry[1] for name in _PEERS for entry in snapshot.get(name, ()) if entry[0] == PeerType.USER]
