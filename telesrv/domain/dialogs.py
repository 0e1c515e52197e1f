"""Dialogs: the owner's list of chats.

*Spec: Dialogs*
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from telesrv.domain.drafts import Draft
from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import Peer

MAIN: Final = 0
ARCHIVE: Final = 1
MAX_PINNED: Final = {MAIN: 5, ARCHIVE: 100}
"""The most pinned chats of each folder."""


@dataclass(frozen=True, slots=True)
class Dialog:
    """One chat in the owner's list."""

    owner_user_id: int
    peer: Peer
    top_box_id: int
    top_date: int
    unread_count: int = 0
    read_inbox_max_id: int = 0
    read_outbox_max_id: int = 0
    folder_id: int = 0
    pinned_order: int = 0
    """0 when not pinned; larger stands higher."""
    unread_mark: bool = False


@dataclass(frozen=True, slots=True)
class DialogPage:
    """Dialogs newest first with their top messages, and how many there are in all."""

    dialogs: tuple[Dialog, ...]
    top_boxes: dict[int, MessageBox]
    """By box_id."""
    total: int
    drafts: Mapping[Peer, Draft] = field(default_factory=dict)
    """Of those chats that have one."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive as one entry among the pinned chats of the main list."""

    peer: Peer
    """Of its newest chat."""
    top_box_id: int
    unread_chats: int
    unread_messages: int
    muted_chats: int
    """Of the unread ones; these are no part of `unread_chats`, nor their messages of `unread_messages`."""
    muted_messages: int
