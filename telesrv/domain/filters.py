"""Dialog filters: lists of chats that an account makes by rules.

*Spec: Folders*
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from telesrv.domain.peers import Peer, PeerType

FIRST_ID: Final = 2
"""0 is the list of all chats and 1 the archive."""
LAST_ID: Final = 255
DEFAULT_ID: Final = 0
"""What stands for the list of all chats in the order of filters."""
MAX_FILTERS: Final = 10
MAX_PEERS: Final = 100
"""The most chats that one filter names of a kind: pinned and included together, and excluded."""
MAX_TITLE: Final = 12
MAX_EMOTICON: Final = 16


@dataclass(frozen=True, slots=True)
class DialogFilter:
    """One filter: the chats it names, and the rules for the others."""

    id: int
    title: str
    emoticon: str | None = None
    color: int | None = None
    title_noanimate: bool = False
    contacts: bool = False
    non_contacts: bool = False
    groups: bool = False
    broadcasts: bool = False
    bots: bool = False
    exclude_muted: bool = False
    exclude_read: bool = False
    exclude_archived: bool = False
    pinned: tuple[Peer, ...] = ()
    """In their order; they are in the filter whatever its rules say, as the included ones are."""
    included: tuple[Peer, ...] = ()
    excluded: tuple[Peer, ...] = ()

    @property
    def by_rule(self) -> bool:
        """Tells whether it takes in chats that it does not name."""
        return self.contacts or self.non_contacts or self.groups or self.broadcasts or self.bots

    @property
    def named(self) -> tuple[Peer, ...]:
        """The chats that are in it whatever the rules say."""
        return tuple(dict.fromkeys((*self.pinned, *self.included)))

    def rules(self) -> tuple[object, ...]:
        """Returns what two filters with the same chats have alike."""
        shown = ("id", "title", "emoticon", "color", "title_noanimate")
        return tuple(getattr(self, field.name) for field in fields(self) if field.name not in shown)


@dataclass(frozen=True, slots=True)
class DialogFilters:
    """All filters of an account."""

    filters: Mapping[int, DialogFilter]
    order: tuple[int, ...]
    """Ids of the filters and `DEFAULT_ID`, each once, as they are shown."""
    tags: bool = False
    """Whether chats are marked with the filters that they are in."""


def ordered(filter_ids: Iterable[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """Returns all filters in the wanted order, those that it does not name behind it by id.

    The list of all chats comes first when its place is not named.
    """
    known = {DEFAULT_ID, *filter_ids}
    named = [filter_id for filter_id in dict.fromkeys(wanted) if filter_id in known]
    if DEFAULT_ID not in named:
        named.insert(0, DEFAULT_ID)
    return (*named, *sorted(known - set(named)))


def suggested(existing: Iterable[DialogFilter]) -> list[DialogFilter]:
    """Returns filters that are useful to most people and that the account does not have; their id is 0."""
    unread = DialogFilter(
        0,
        "Unread",
        contacts=True,
        non_contacts=True,
        groups=True,
        broadcasts=True,
        bots=True,
        exclude_read=True,
        exclude_archived=True,
    )
    personal = DialogFilter(0, "Personal", contacts=True, non_contacts=True)
    have = {known.rules() for known in existing}
    return [filter_ for filter_ in (unread, personal) if filter_.rules() not in have]


_PEERS: Final = ("pinned", "included", "excluded")


def filter_to_json(filter_: DialogFilter) -> dict[str, Any]:
    """Returns the snapshot of a filter; what is left out is off."""
    snapshot: dict[str, Any] = {}
    for field in fields(filter_):
        value = getattr(filter_, field.name)
        if field.name in _PEERS:
            value = [[int(peer.type), peer.id] for peer in value]
        if value is not None and value is not False and value != []:
            snapshot[field.name] = value
    return snapshot | {"id": filter_.id}


def filter_from_json(snapshot: Mapping[str, Any]) -> DialogFilter:
    """Returns what `filter_to_json` was given."""
    peers = {name: tuple(peers_from_json(snapshot.get(name, ()))) for name in _PEERS}
    return DialogFilter(**{**snapshot, **peers})


def peers_from_json(stored: Iterable[Sequence[int]]) -> list[Peer]:
    """Returns the peers of stored [type, id] pairs; what else stands in an entry is passed over."""
    return [Peer(PeerType(entry[0]), entry[1]) for entry in stored]
