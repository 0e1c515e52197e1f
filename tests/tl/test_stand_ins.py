"""A peer where the schema wants a user or a channel is taken for that one, as clients mean it."""

from __future__ import annotations

import pytest

from telesrv.tl import UnknownConstructor, functions, read, types, write
from telesrv.tl.schema import schema
from telesrv.tl.upgrade import STAND_INS

USER = types.InputUser(user_id=7, access_hash=-8)
PEER = types.InputPeerUser(user_id=7, access_hash=-8)


def replaced(data: bytes, old: object, new: object) -> bytes:
    assert write(old) in data
    return data.replace(write(old), write(new))


@pytest.mark.parametrize(
    ("user", "peer"),
    [
        (USER, PEER),
        (types.InputUserSelf(), types.InputPeerSelf()),
        (types.InputUserEmpty(), types.InputPeerEmpty()),
        (
            types.InputUserFromMessage(peer=PEER, msg_id=5, user_id=9),
            types.InputPeerUserFromMessage(peer=PEER, msg_id=5, user_id=9),
        ),
    ],
)
def test_a_peer_is_taken_for_its_user(user: types.TypeInputUser, peer: types.TypeInputPeer) -> None:
    many = functions.users.GetUsers(id=[user, USER])
    one = functions.users.GetFullUser(id=user)
    assert read(replaced(write(many), user, peer)) == many
    assert read(replaced(write(one), user, peer)) == one


def test_a_peer_is_taken_for_its_channel() -> None:
    asked = functions.channels.GetFullChannel(channel=types.InputChannel(channel_id=1, access_hash=2))
    peer = types.InputPeerChannel(channel_id=1, access_hash=2)
    assert read(replaced(write(asked), asked.channel, peer)) == asked


def test_nothing_else_is_taken_for_another_type() -> None:
    asked = functions.users.GetFullUser(id=USER)
    for wrong in (
        types.InputPeerChat(chat_id=1),
        types.PeerUser(user_id=7),
        types.InputDialogPeer(peer=PEER),
    ):
        with pytest.raises(UnknownConstructor):
            read(replaced(write(asked), USER, wrong))
    with pytest.raises(UnknownConstructor):
        read(replaced(write(functions.messages.GetPeerSettings(peer=PEER)), PEER, USER))


def test_what_stands_in_has_the_same_fields() -> None:
    for (type_, name), meant in STAND_INS.items():
        made = getattr(types, meant)
        [peer] = [variant for variant in schema().by_id.values() if variant.name == name][-1:]
        assert {field.attribute for field in peer.attributes} == set(made.__slots__), (type_, name)
