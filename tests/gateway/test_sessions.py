"""What one client may do to sessions costs only itself.

*Spec: Service Messages; Security Guidelines for Client Developers*
"""

from __future__ import annotations

import secrets
import struct

from telesrv import tl
from telesrv.mtproto.crypto import decrypt_message
from telesrv.tl import mt
from tests.support.raw_client import RawClient

MANY = 48
"""Sessions over one link, more than it carries and the server keeps detached for one key."""


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
