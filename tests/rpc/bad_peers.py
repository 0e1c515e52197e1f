"""Peers that no account may name, and the error that each is refused by."""

from __future__ import annotations

from telesrv.tl import types
from tests.rpc.chats import Device


def bad_peers(device: Device, other: Device, stranger: Device) -> list[tuple[types.TypeInputPeer, str]]:
    """Returns peers for calls of *device*: *other*'s hash is right, the rest is forged."""
    right = device.peer(other)
    foreign = stranger.peer(other)
    return [
        (types.InputPeerEmpty(), "PEER_ID_INVALID"),
        (foreign, "PEER_ID_INVALID"),
        (types.InputPeerUser(user_id=right.user_id, access_hash=right.access_hash ^ 1), "PEER_ID_INVALID"),
        (types.InputPeerUser(user_id=2**63 - 1, access_hash=right.access_hash), "PEER_ID_INVALID"),
        (types.InputPeerUser(user_id=-(2**63), access_hash=-1), "PEER_ID_INVALID"),
        (types.InputPeerUser(user_id=0, access_hash=0), "PEER_ID_INVALID"),
        (types.InputPeerChat(chat_id=1), "CHAT_ID_INVALID"),
        (types.InputPeerChannel(channel_id=1, access_hash=1), "CHANNEL_INVALID"),
    ]
