"""What one client may do to sessions costs only itself.

*Spec: Service Messages; Security Guidelines for Client Developers*
"""

from __future__ import annotations

import secrets
import struct

from telesrv import tl
from telesrv.mtproto.crypto import decrypt_message
from telesrv.tl import functions, mt, types
from tests.gateway.conftest import new_phone
from tests.support.raw_client import RawClient
from tests.support.running import RunningServer

MANY = 48
"""Sessions over one link, more than it carries and the server keeps detached for one key."""


async def account(server: RunningServer) -> tuple[RawClient, str, types.User]:
    """Returns a client that is logged in to a new account, and its phone number."""
    client = RawClient(server.port, server.data_dir)
    await client.open()
    phone = new_phone()
    sent = await client.ask(
        functions.auth.SendCode(
            phone_number=phone, api_id=1, api_hash="0" * 32, settings=types.CodeSettings()
        )
    )
    code_hash = sent.phone_code_hash
    await client.ask(functions.auth.SignIn(phone_number=phone, phone_code_hash=code_hash, phone_code="12345"))
    answer = await client.ask(
        functions.auth.SignUp(phone_number=phone, phone_code_hash=code_hash, first_name="Ada", last_name="")
    )
    return client, phone, answer.user


async def peer(client: RawClient, phone: str) -> types.InputPeerUser:
    """Returns how the client names the account of a phone number."""
    found = await client.ask(functions.contacts.ResolvePhone(phone=phone))
    [user] = found.users
    return types.InputPeerUser(user_id=user.id, access_hash=user.access_hash)


def add(user: types.InputPeerUser) -> functions.contacts.AddContact:
    """Returns the call that takes an account into the address book."""
    return functions.contacts.AddContact(
        id=types.InputUser(user_id=user.user_id, access_hash=user.access_hash),
        first_name="X",
        last_name="",
        phone="",
    )


async def test_one_link_carries_a_bounded_number_of_sessions(client: RawClient) -> None:
    assert client.link is not None
    assert client.auth_key is not None
    client.send(mt.Ping(ping_id=1))
    await client.wait_for(mt.Pong, ping_id=1)
    others = [secrets.randbits(63) for _ in range(MANY)]
    for session_id in others:
        client.link.send(client.packet(tl.write(mt.Ping(ping_id=2)), session_id=session_id, seq_no=0))
    answered: set[int] = set()
    while not answered.issuperset(others):
        payload = await client.link.receive()
        assert isinstance(payload, bytes)
        (session_id,) = struct.unpack_from(
            "<q", decrypt_message(client.auth_key, payload, from_server=True), 8
        )
        answered.add(session_id)
    client.send(mt.Ping(ping_id=3))
    assert await client.wait_for(mt.NewSessionCreated)  # the first one had to make room


async def test_a_dropped_request_leaves_no_hole_in_the_log_of_another(server: RunningServer) -> None:
    ada, ada_phone, _ = await account(server)
    bob, bob_phone, _ = await account(server)
    ada_there, bob_there = await peer(bob, ada_phone), await peer(ada, bob_phone)
    await ada.ask(add(bob_there))
    for number in range(60):  # Ada is told each time that the two begin or cease to be mutual contacts
        user = types.InputUser(user_id=ada_there.user_id, access_hash=ada_there.access_hash)
        change = functions.contacts.DeleteContacts(id=[user]) if number % 2 else add(ada_there)
        changed = bob.send(change)
        for _ in range(number % 8):  # so that the drop meets the request at different places
            ping_id = secrets.randbits(62)
            bob.send(mt.Ping(ping_id=ping_id))
            await bob.wait_for(mt.Pong, ping_id=ping_id)
        bob.send(mt.RpcDropAnswer(req_msg_id=changed))
        await bob.ask(functions.contacts.GetContacts(hash=0))
    await bob.ask(functions.messages.SendMessage(peer=ada_there, message="end", random_id=1))
    for client in (ada, bob):
        state = await client.ask(functions.updates.GetState())
        # At a hole it waits until that is filled.
        await client.ask(functions.updates.GetDifference(pts=state.pts, date=1, qts=0))
        await client.close()
    assert "filled pts" not in server.log_text()


async def test_a_typing_notice_is_not_sent_again_over_the_next_link(server: RunningServer) -> None:
    ada, ada_phone, _ = await account(server)
    bob, bob_phone, _ = await account(server)
    there, here = await peer(bob, ada_phone), await peer(ada, bob_phone)
    await ada.ask(functions.messages.SendMessage(peer=here, message="first", random_id=1))
    typing = types.SendMessageTypingAction()
    await bob.ask(functions.messages.SetTyping(peer=there, action=typing))
    notice = await ada.wait_for(types.UpdateShort)
    assert isinstance(notice.update, types.UpdateUserTyping)
    await bob.ask(functions.messages.SendMessage(peer=there, message="second", random_id=2))
    assert "second" in repr(await ada.wait_for(types.Updates))
    await ada.connect()  # nothing of it was acknowledged
    ada.send(mt.Ping(ping_id=1))
    again: list[object] = []
    while not any(isinstance(message, types.Updates) for message in again):
        messages = await ada.receive()
        assert messages is not None
        again += (message for _, message in messages)
    assert not any(isinstance(message, types.UpdateShort) for message in again)
    for client in (ada, bob):
        await client.close()
