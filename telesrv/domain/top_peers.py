"""Whom an account writes to most.

*Spec: Top peer rating*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from telesrv.domain.peers import Peer

DECAY_S: Final = 2_419_200
"""After so many seconds a message counts for 1/e; clients are told it as rating_e_decay."""
LOOKED_AT: Final = 3_000
"""The newest messages of an account that a rating is told from."""
MAX_TOP: Final = 100
"""The most peers that one answer rates."""


@dataclass(frozen=True, slots=True)
class TopPeer:
    """A peer, and the sum over the messages to it of e to the power of minus their age over `DECAY_S`."""

    peer: Peer
    rating: float
