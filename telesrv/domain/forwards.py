"""Forwards: what is told of where a message was first written.

*Spec: messages.forwardMessages*
"""

from __future__ import annotations

from typing import Final

from telesrv.domain.messages import ForwardHeader, MessageBox
from telesrv.domain.peers import Peer
from telesrv.domain.users import UserView

MAX_FORWARDS: Final = 100
"""The most messages that one call forwards."""
DELETED_NAME: Final = "Deleted Account"


def forward_header(box: MessageBox, author: UserView | None, to: Peer) -> ForwardHeader:
    """Returns the header of a copy of *box* in the chat with *to*.

    The first author stays, however often it is forwarded on. One who does not want to be found by forwards,
    or whose account is gone, is there by name only.

    Args:
        box: the owner's copy that is forwarded.
        author: its author as the owner sees them; None when the account never was.
        to: where it goes; in one's own saved messages the header tells where it was taken from.
    """
    first = box.fwd or _first(box, author)
    if to != Peer.user(box.owner_user_id):
        return ForwardHeader(first.date, first.from_user_id, first.from_name)
    return ForwardHeader(first.date, first.from_user_id, first.from_name, box.peer, box.box_id)


def _first(box: MessageBox, author: UserView | None) -> ForwardHeader:
    if author is None or author.user.deleted:
        return ForwardHeader(box.date, from_name=DELETED_NAME)
    name = author.maybe_forward_name
    if name is not None:
        return ForwardHeader(box.date, from_name=name)
    return ForwardHeader(box.date, box.from_user_id)
