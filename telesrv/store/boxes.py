"""How a message box stands in its row."""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import Peer, PeerType
from telesrv.domain.snapshots import action_from_json, entities_from_json, fwd_from_json, reply_to_of
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
