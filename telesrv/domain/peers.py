"""Peers: whom a dialog is with, as (type, id) everywhere.

*Spec: Peers*
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

SERVICE_USER_ID: Final = 777000
"""The account that sends service notifications and login codes; it is known to everyone."""

MAX_ID: Final = 2**31 - 1
"""The largest box_id and pts; both are positive int32 in the protocol."""


class PeerType(IntEnum):
    """The kind of a peer; the numbers are stored."""

    USER = 1
    CHAT = 2
    CHANNEL = 3


@dataclass(frozen=True, slots=True, order=True)
class Peer:
    """One side of a dialog."""

    type: PeerType
    id: int

    @classmethod
    def user(cls, user_id: int) -> Peer:
        """Returns the peer of a private chat with *user_id*."""
        return cls(PeerType.USER, user_id)


def access_hash(secret: bytes, viewer_user_id: int, peer: Peer) -> int:
    """Returns the access_hash (signed 64 bits, never 0) by which *viewer_user_id* may name *peer*.

    It is an HMAC, so nothing is stored and one account's hash is worthless to another.

    *Spec: Peers*
    """
    text = b"access_hash:%d:%d:%d" % (viewer_user_id, peer.type, peer.id)
    digest = hmac.digest(secret, text, hashlib.sha256)
    return int.from_bytes(digest[:8], "little", signed=True) or 1


def access_hash_matches(secret: bytes, viewer_user_id: int, peer: Peer, given: int) -> bool:
    """Tells in constant time whether *given* is the viewer's access_hash for *peer*."""
    expected = access_hash(secret, viewer_user_id, peer)
    return hmac.compare_digest(
        expected.to_bytes(8, "little", signed=True), given.to_bytes(8, "little", signed=True)
    )
