"""How the parts of a message are stored, in rows and in events: as JSON of few bytes.

What is stored once is read for ever: a format may grow, and never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from telesrv.domain.actions import Action, ActionKind
from telesrv.domain.messages import Entity, ForwardHeader, ReplyTo
from telesrv.domain.peers import Peer, PeerType


def entities_to_json(entities: Sequence[Entity]) -> list[list[Any]] | None:
    """Returns entities as they are stored: [kind, offset, length] and, if it has one, the argument."""
    if not entities:
        return None
    return [
        [entity.kind, entity.offset, entity.length, *([] if entity.argument is None else [entity.argument])]
        for entity in entities
    ]


def entities_from_json(stored: Iterable[Sequence[Any]] | None) -> tuple[Entity, ...]:
    """Returns what `entities_to_json` was given."""
    return tuple(Entity(*fields) for fields in stored or ())


def fwd_to_json(fwd: ForwardHeader | None) -> dict[str, Any] | None:
    """Returns where a message was first written as it is stored."""
    if fwd is None:
        return None
    stored: dict[str, Any] = {"date": fwd.date}
    if fwd.from_user_id:
        stored["from"] = fwd.from_user_id
    if fwd.from_name is not None:
        stored["name"] = fwd.from_name
    if fwd.saved_from is not None:
        stored["saved"] = [fwd.saved_from.type, fwd.saved_from.id, fwd.saved_from_box_id]
    return stored


def fwd_from_json(stored: Mapping[str, Any] | None) -> ForwardHeader | None:
    """Returns what `fwd_to_json` was given."""
    if stored is None:
        return None
    peer_type, peer_id, box_id = stored.get("saved", (0, 0, 0))
    saved = Peer(PeerType(peer_type), peer_id) if peer_type else None
    return ForwardHeader(stored["date"], stored.get("from", 0), stored.get("name"), saved, box_id)


def quote_to_json(reply_to: ReplyTo | None) -> dict[str, Any] | None:
    """Returns the quote of a reply as it is stored; None when it quotes nothing."""
    if reply_to is None or (reply_to.quote_text is None and reply_to.quote_offset is None):
        return None
    return {
        "text": reply_to.quote_text,
        "entities": entities_to_json(reply_to.quote_entities),
        "offset": reply_to.quote_offset,
    }


def reply_to_of(box_id: int, quote: Mapping[str, Any] | None) -> ReplyTo:
    """Returns the reply whose quote is stored as *quote*."""
    if quote is None:
        return ReplyTo(box_id)
    return ReplyTo(box_id, quote["text"], entities_from_json(quote["entities"]), quote["offset"])


def action_to_json(action: Action | None) -> dict[str, Any] | None:
    """Returns what a service message tells of as it is stored."""
    if action is None:
        return None
    stored: dict[str, Any] = {"kind": int(action.kind)}
    if action.period_s:
        stored["period_s"] = action.period_s
    if action.auto_user_id:
        stored["auto"] = action.auto_user_id
    return stored


def action_from_json(stored: Mapping[str, Any]) -> Action:
    """Returns what `action_to_json` was given."""
    return Action(ActionKind(stored["kind"]), stored.get("period_s", 0), stored.get("auto", 0))
