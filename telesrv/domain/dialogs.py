"""Dialogs: the owner's list of chats.

*Spec: Dialogs*
"""

from __future__ import annotations

from dataclasses import dataclass

from telesrv.domain.messages import MessageBox
from telesrv.domain.peers import Peer


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
