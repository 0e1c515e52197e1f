"""Peers between TL and the domain, with the access_hash check.

An access_hash is an HMAC over (viewer, peer), so a right one proves that this server told this account of
the peer; another account's is worthless. Only users exist so far: a chat or channel is a peer nobody has.

*Spec: Peers; Peer database*
"""

from __future__ import annotations

from typing import assert_never

from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType, access_hash_matches
from telesrv.rpc.errors import bad_request
from telesrv.tl import types


def peer_of(input_peer: types.TypeInputPeer, viewer_user_id: int, secret: bytes) -> Peer:
    """Returns the peer that an InputPeer of the viewer names.

    Raises:
        RpcError: 400 PEER_ID_INVALID for an empty or unknown one or a wrong access_hash; CHAT_ID_INVALID
            and CHANNEL_INVALID for kinds that do not exist here.

    *Spec: Peers*
    """
    match input_peer:
        case types.InputPeerSelf():
            return Peer.user(viewer_user_id)
        case types.InputPeerUser():
            return _user(
                input_peer.user_id, input_peer.access_hash, viewer_user_id, secret, "PEER_ID_INVALID"
            )
        case types.InputPeerChat():
            raise bad_request("CHAT_ID_INVALID")
        case types.InputPeerChannel() | types.InputPeerChannelFromMessage():
            raise bad_request("CHANNEL_INVALID")
        case _:
            raise bad_request("PEER_ID_INVALID")


def user_of(
    input_user: types.TypeInputUser, viewer_user_id: int, secret: bytes, error: str = "USER_ID_INVALID"
) -> int:
    """Returns the user_id that an InputUser of the viewer names.

    Raises:
        RpcError: 400 *error* for an empty or unknown one or a wrong access_hash.

    *Spec: Peers*
    """
    match input_user:
        case types.InputUserSelf():
            return viewer_user_id
        case types.InputUser():
            return _user(input_user.user_id, input_user.access_hash, viewer_user_id, secret, error).id
        case _:
            raise bad_request(error)


def _user(user_id: int, access_hash: int, viewer_user_id: int, secret: bytes, error: str) -> Peer:
    peer = Peer.user(user_id)
    if user_id in (viewer_user_id, SERVICE_USER_ID):
        # Known to everybody; clients name the service by a hash of their own before they are told.
        return peer
    if user_id <= 0 or not access_hash_matches(secret, viewer_user_id, peer, access_hash):
        raise bad_request(error)
    return peer


def peer_from_tl(peer: types.TypePeer) -> Peer:
    """Returns the peer that `peer_to_tl` was given.

    *Spec: Peers*
    """
    match peer:
        case types.PeerUser():
            return Peer.user(peer.user_id)
        case types.PeerChat():
            return Peer(PeerType.CHAT, peer.chat_id)
        case types.PeerChannel():
            return Peer(PeerType.CHANNEL, peer.channel_id)
        case _:
            assert_never(peer)


def peer_to_tl(peer: Peer) -> types.TypePeer:
    """Returns the peer as TL has it.

    *Spec: Peers*
    """
    match peer.type:
        case PeerType.USER:
            return types.PeerUser(user_id=peer.id)
        case PeerType.CHAT:
            return types.PeerChat(chat_id=peer.id)
        case PeerType.CHANNEL:
            return types.PeerChannel(channel_id=peer.id)
        case _:
            assert_never(peer.type)
