"""How a message box stands in its row."""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from telesrv.domain.actions import Action, ActionKind
from telesrv.domain.messages import Entity, ForwardHeader, MessageBox, ReplyTo
from telesrv.domain.peers import Peer, PeerType
from telesrv.store.pool import Record

_PEER_TYPES: Final = {peer_type.value: peer_type for peer_type in PeerType}
COLUMNS: Final = """b.owner_user_id, b.box_id, b.peer_type, b.peer_id, b.from_user_id, b.outgoing,
    b.message_id, b.date, b.text, b.entities, b.silent, b.noforwards, b.reply_to_box_id, b.reply_quote,
    b.edit_date, b.media, b.media_unread, b.reaction_unread, b.peer_box_id, b.flags, b.pts,
    b.random_id, b.expires_at, b.fwd, b.action"""

# Reads boxes of one owner, deleted ones left out.
SQL_GET: Final = f"""
SELECT {COLUMNS} FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.box_id = ANY($2::int[]) AND NOT b.deleted
"""
# Reads boxes of many owners, deleted ones included when $3.
SQL_GET_MANY: Final = f"""
SELECT {COLUMNS}
FROM unnest($1::bigint[], $2::int[]) AS q(owner_user_id, box_id)
JOIN message_boxes b ON b.owner_user_id = q.owner_user_id AND b.box_id = q.box_id
WHERE $3 OR NOT b.deleted
"""


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


@lru_cache(maxsize=1 << 16)
def peer_of(peer_type: int, peer_id: int) -> Peer:
    """Returns the peer that a row has as *peer_type* and *peer_id*."""
    return Peer(_PEER_TYPES[peer_type], peer_id)


def box_from_row(row: Record) -> MessageBox:
    """Returns the box of a row of `COLUMNS`."""
    return box_of(tuple(row))


def box_of(values: tuple[Any, ...]) -> MessageBox:
    """Returns the box whose `COLUMNS` have *values*."""
    owner_user_id, box_id, peer_type, peer_id, from_user_id, outgoing, message_id, date, text = values[:9]
    entities, silent, noforwards, reply_to_box_id, reply_quote, edit_date, *rest, fwd, action = values[9:]
    return MessageBox(
        owner_user_id,
        box_id,
        peer_of(peer_type, peer_id),
        from_user_id,
        outgoing,
        message_id,
        date,
        text,
        entities_from_json(entities) if entities else (),
        silent,
        noforwards,
        None if reply_to_box_id is None else reply_to_of(reply_to_box_id, reply_quote),
        edit_date,
        *(*rest, fwd_from_json(fwd), None if action is None else action_from_json(action)),
    )


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
