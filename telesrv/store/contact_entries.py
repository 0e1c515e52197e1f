"""Entries of an address book as they are written, and what a write of them tells.

*Spec: Contacts; Action bar*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from telesrv.store.pool import to_json

Columns: TypeAlias = list[list[Any]]

MAX_NAMED: Final = 100
"""The most accounts that one event names, and the most chats whose action bar one change tells of."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry to be written: names as cleaned by the caller; phone only when the owner knew it."""

    user_id: int
    first_name: str
    last_name: str
    phone: str
    share_phone: bool
    note: str = ""
    """Empty: what stands there stays."""
    note_entities: str | None = None

    def notes(self, row: Any) -> bool:
        """Tells whether it brings another note than the owner's row of `contacts` has."""
        return bool(self.note) and (
            row is None or row["note"] != self.note or to_json(row["note_entities"]) != self.note_entities
        )

    def differs(self, row: Any) -> bool:
        """Tells whether it says more than the owner's row of `contacts`."""
        return (
            row is None
            or not row["listed"]
            or (row["first_name"], row["last_name"]) != (self.first_name, self.last_name)
            or self.phone not in ("", row["phone"])
            or (self.share_phone and not row["phone_shared"])
            or self.notes(row)
        )


class BookChange:
    """One write of entries: what was known before it, and whose logs it will be written to."""

    def __init__(
        self,
        owner_user_id: int,
        entries: Sequence[Entry],
        listing: bool,
        known: dict[int, Any],
    ) -> None:
        self.owner_user_id = owner_user_id
        self.entries = entries
        self.listing = listing
        self.listed_by = {user_id for user_id, row in known.items() if row["listed_by"]}
        self.was = {user_id: decisive(row) for user_id, row in known.items()}
        was_listed = {user_id for user_id, row in known.items() if row["listed"]}
        shown = {user_id for user_id, row in known.items() if row["phone_shared"]}
        self.mutual = sorted(
            entry.user_id
            for entry in entries
            if entry.user_id in self.listed_by and (entry.user_id in was_listed) != listing
        )
        """Who becomes or ceases to be a mutual contact."""
        self.bars = [
            entry.user_id
            for entry in entries
            if (entry.user_id in was_listed) != listing or (entry.share_phone and entry.user_id not in shown)
        ]
        """The chats whose action bar changes; none when very many: clients ask when they open one."""
        if len(self.bars) > MAX_NAMED:
            self.bars = []
        with_note = {user_id for user_id, row in known.items() if row["note"]}
        self.noted = [
            entry.user_id
            for entry in entries
            if (entry.notes(known.get(entry.user_id)) if listing else entry.user_id in with_note)
        ][:MAX_NAMED]
        """The contacts whose profile page changes: an entry that goes takes its note along."""
        self.writers = [owner_user_id] * (1 + len(self.bars) + len(self.noted)) + self.mutual

    def columns(self) -> Columns:
        """Returns the columns of `SQL_LIST`: the owner's rows and the other sides'."""
        owner, entries = self.owner_user_id, self.entries
        own = [
            (
                owner,
                e.user_id,
                True,
                e.first_name,
                e.last_name,
                e.phone,
                e.share_phone,
                e.note,
                e.note_entities,
            )
            for e in entries
        ]
        other = [(e.user_id, owner, False, "", "", "", e.share_phone, "", None) for e in entries]
        return [list(column) for column in zip(*own, *other, strict=True)]


def decisive(row: Any) -> tuple[Any, ...]:
    """Returns that of an owner's row of `contacts` by which it is decided what a change tells."""
    return row["listed"], row["phone_shared"], row["note"], to_json(row["note_entities"])
