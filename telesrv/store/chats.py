"""The keys of dialogs, of several owners, as statements take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Chat: TypeAlias = tuple[int, int, int]
"""owner_user_id, peer_type, peer_id: the key of a dialog."""


def chat_columns(chats: Sequence[Chat]) -> tuple[list[int], list[int], list[int]]:
    """Returns owners, peer types and peer ids, in the order of *chats*."""
    return [chat[0] for chat in chats], [chat[1] for chat in chats], [chat[2] for chat in chats]
