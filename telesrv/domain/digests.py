"""What a send asks for, as 32 bytes: two requests with one random_id are one when these are equal.

They cover the permanent key of the device and what it asked for, not what came of it.

*Spec: messages.sendMessage; messages.forwardMessages*
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from telesrv.domain.messages import Entity, ReplyTo
from telesrv.domain.peers import Peer
from telesrv.domain.text import FormattedText


def message_digest(auth_key_id: int, peer: Peer, formatted: FormattedText, reply_to: ReplyTo | None) -> bytes:
    """Returns the SHA-256 over the key, the peer, the text and the reply, with entities and quote."""
    reply: list[object] | None = None
    if reply_to is not None:
        quoted = _listed(reply_to.quote_entities)
        reply = [reply_to.box_id, reply_to.quote_text, quoted, reply_to.quote_offset]
    return _sha256([auth_key_id, int(peer.type), peer.id, formatted.text, _listed(formatted.entities), reply])


def forward_digest(auth_key_id: int, source: Peer, box_id: int, target: Peer, *, drop_author: bool) -> bytes:
    """Returns the SHA-256 over the key, where the message is taken from and where it goes; what it says now
    is no part of it.
    """
    taken, goes = [int(source.type), source.id, box_id], [int(target.type), target.id]
    return _sha256(["forward", auth_key_id, taken, goes, drop_author])


def _listed(entities: Sequence[Entity]) -> list[list[object]]:
    return [[entity.kind, entity.offset, entity.length, entity.argument] for entity in entities]


def _sha256(identity: list[object]) -> bytes:
    return hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).digest()
