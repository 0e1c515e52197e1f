"""Drafts: what an account began to write in a chat.

*Spec: Message drafts*
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from telesrv.domain.messages import Entity, ReplyTo
from telesrv.domain.snapshots import entities_from_json, entities_to_json

MAX_DRAFTS: Final = 1_000
"""The most drafts that one answer shows."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A text as it was left, blanks and all."""

    date: int
    text: str = ""
    entities: tuple[Entity, ...] = ()
    no_webpage: bool = False
    invert_media: bool = False
    reply_to: ReplyTo | None = None
    webpage: Mapping[str, Any] | None = None
    """A link to be shown as a preview: url, force_large_media, force_small_media."""

    @property
    def empty(self) -> bool:
        """Tells whether nothing of it would be kept."""
        return not self.text and self.reply_to is None and self.webpage is None

    def same(self, other: Draft | None) -> bool:
        """Tells whether the other says the same, whenever that was."""
        return other is not None and draft_to_json(self) | {"date": 0} == draft_to_json(other) | {"date": 0}


def draft_to_json(draft: Draft) -> dict[str, Any]:
    """Returns the snapshot that is stored and that stands in events."""
    snapshot: dict[str, Any] = {"date": draft.date, "text": draft.text}
    if draft.entities:
        snapshot["entities"] = entities_to_json(draft.entities)
    if draft.no_webpage:
        snapshot["no_webpage"] = True
    if draft.invert_media:
        snapshot["invert_media"] = True
    if draft.webpage is not None:
        snapshot["webpage"] = dict(draft.webpage)
    reply = draft.reply_to
    if reply is not None:
        quote = [reply.quote_text, entities_to_json(reply.quote_entities), reply.quote_offset]
        snapshot["reply_to"] = [reply.box_id, *quote]
    return snapshot


def draft_from_json(snapshot: Mapping[str, Any]) -> Draft:
    """Returns what `draft_to_json` was given."""
    reply_to = None
    if (reply := snapshot.get("reply_to")) is not None:
        box_id, quote_text, quote_entities, quote_offset = reply
        reply_to = ReplyTo(box_id, quote_text, entities_from_json(quote_entities), quote_offset)
    return Draft(
        date=snapshot["date"],
        text=snapshot["text"],
        entities=entities_from_json(snapshot.get("entities")),
        no_webpage=snapshot.get("no_webpage", False),
        invert_media=snapshot.get("invert_media", False),
        reply_to=reply_to,
        webpage=snapshot.get("webpage"),
    )
