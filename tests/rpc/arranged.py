"""What a client knows of how its list of chats is arranged, by updates alone and asked afresh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from telesrv.tl import functions, types

Compared: TypeAlias = tuple[str, Any, Any]
"""The name of something that is known, as who followed the updates knows it, and as who asked afresh."""


@dataclass
class Arranged:
    """Pins, archive, marks, drafts, filters and blocks, as updates tell of them."""

    pins: dict[int, list[int]] = field(default_factory=lambda: {0: [], 1: []})
    archived: set[int] = field(default_factory=set)
    marks: set[int] = field(default_factory=set)
    drafts: dict[int, Any] = field(default_factory=dict)
    filters: dict[int, Any] = field(default_factory=dict)
    order: list[int] = field(default_factory=lambda: [0])
    blocked: set[int] = field(default_factory=set)
    bars: dict[int, Any] = field(default_factory=dict)
    """The action bars that were told or asked for."""

    def apply(self, update: Any) -> None:
        """Applies an update by the rules of the public specification."""
        match update:
            case types.UpdateDialogPinned():
                peer_id, pins = update.peer.peer.user_id, self.pins[update.folder_id or 0]
                if peer_id in pins:
                    pins.remove(peer_id)
                if update.pinned:
                    pins.insert(0, peer_id)
            case types.UpdatePinnedDialogs():
                self.pins[update.folder_id or 0] = [named.peer.user_id for named in update.order]
            case types.UpdateFolderPeers():
                for moved in update.folder_peers:
                    self._move(moved.peer.user_id, moved.folder_id)
            case types.UpdateDialogUnreadMark():
                _set(self.marks, update.peer.peer.user_id, update.unread)
            case types.UpdateDraftMessage():
                self.drafts.pop(update.peer.user_id, None)
                if not isinstance(update.draft, types.DraftMessageEmpty):
                    self.drafts[update.peer.user_id] = update.draft
            case types.UpdateDialogFilter():
                self._filter(update.id, update.filter)
            case types.UpdateDialogFilterOrder():
                self.order = list(update.order)
            case types.UpdatePeerBlocked():
                _set(self.blocked, update.peer_id.user_id, update.blocked)
            case types.UpdatePeerSettings():
                self.bars[update.peer.user_id] = update.settings

    def _move(self, peer_id: int, folder_id: int) -> None:
        _set(self.archived, peer_id, folder_id == 1)
        for pins in self.pins.values():
            if peer_id in pins:
                pins.remove(peer_id)

    def _filter(self, filter_id: int, filter_: Any) -> None:
        if filter_ is None:
            del self.filters[filter_id]
            self.order.remove(filter_id)
            return
        if filter_id not in self.filters:
            self.order.append(filter_id)
        self.filters[filter_id] = filter_


def _set(members: set[int], member: int, there: bool) -> None:
    if there:
        members.add(member)
    else:
        members.discard(member)


async def fresh_arranged(device: Any, others: Iterable[Any]) -> Arranged:
    """Returns what a client is told that has just logged in."""
    known = Arranged()
    for folder_id in (0, 1):
        answer = await device.call(functions.messages.GetPinnedDialogs(folder_id=folder_id))
        chats = [dialog for dialog in answer.dialogs if isinstance(dialog, types.Dialog)]
        known.pins[folder_id] = [dialog.peer.user_id for dialog in chats]
        assert all(dialog.pinned for dialog in answer.dialogs)
    for dialog in (await device.dialogs()).dialogs:
        peer_id = dialog.peer.user_id
        _set(known.archived, peer_id, dialog.folder_id == 1)
        _set(known.marks, peer_id, dialog.unread_mark)
        if dialog.draft is not None:
            known.drafts[peer_id] = dialog.draft
        assert dialog.pinned == (peer_id in known.pins[dialog.folder_id or 0])
    marks = await device.call(functions.messages.GetDialogUnreadMarks())
    assert {named.peer.user_id for named in marks} == known.marks
    for update in (await device.call(functions.messages.GetAllDrafts())).updates:
        assert known.drafts.get(update.peer.user_id) in (None, update.draft)
        known.drafts[update.peer.user_id] = update.draft
    answer = await device.call(functions.messages.GetDialogFilters())
    known.order = [getattr(shown, "id", 0) for shown in answer.filters]
    known.filters = {shown.id: shown for shown in answer.filters if isinstance(shown, types.DialogFilter)}
    page = await device.call(functions.contacts.GetBlocked(offset=0, limit=100))
    known.blocked = {entry.peer_id.user_id for entry in page.blocked}
    for other in others:
        answer = await device.call(functions.messages.GetPeerSettings(peer=device.peer(other)))
        known.bars[other.user_id] = answer.settings
    return known


def compared_arranged(followed: Arranged, asked: Arranged) -> Iterator[Compared]:
    """Yields what following the updates and asking afresh must know alike."""
    for name in ("pins", "archived", "marks", "drafts", "filters", "order", "blocked"):
        yield name, getattr(followed, name), getattr(asked, name)
    told = {peer_id: bar for peer_id, bar in followed.bars.items() if peer_id in asked.bars}
    yield "bars", told, {peer_id: asked.bars[peer_id] for peer_id in told}


def differing(pairs: Iterable[Compared]) -> list[str]:
    """Returns what is not known alike, one line each."""
    lines = []
    for name, known, asked in pairs:
        if known == asked:
            continue
        if isinstance(known, dict) and isinstance(asked, dict):
            lines += [
                f"{name}[{key}]: {known.get(key)!r} instead of {asked.get(key)!r}"
                for key in {**known, **asked}
                if known.get(key) != asked.get(key)
            ]
        else:
            lines.append(f"{name}: {known!r} instead of {asked!r}")
    return lines


def same_arranged(followed: Arranged, asked: Arranged) -> None:
    """Asserts that following the updates and asking afresh come to the same."""
    assert not differing(compared_arranged(followed, asked))
