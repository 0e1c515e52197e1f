"""A client that chooses which worker it talks to, and notes all it is sent."""

from __future__ import annotations

import asyncio
import itertools
import os
import struct
import time
from pathlib import Path
from typing import Any

from telesrv import tl
from telesrv.mtproto.crypto import AuthKey
from telesrv.tl import functions, mt, types
from tests.mtproto.exchange_client import ClientExchange
from tests.support.mtproto_v1 import encrypt_message_v1
from tests.support.raw_client import Link, RawClient
from tests.support.running import RunningServer

CODE = "12345"
PHONES = itertools.count(15_600_001)
RANDOM_IDS = itertools.count(1)
LINKS_AT_ONCE = 6
MOST_LINKS = 60
SILENT_S = 0.5
"""After so long without any answer, all the links opened so far may be with a worker that hangs."""


def no_bug(server: RunningServer) -> None:
    """Asserts that nothing the server logged has a traceback."""
    # Libraries put theirs into warnings, when a server that they want is away.
    lines = [line for line in server.log_text().splitlines() if '"level": "warning"' not in line]
    bugs = [line for line in lines if "Traceback" in line]
    assert not bugs, "\n".join(bugs)[:8000]


def send_code() -> functions.auth.SendCode:
    """A query that gives another answer each time it is executed."""
    return functions.auth.SendCode(
        phone_number=f"{next(PHONES)}", api_id=1, api_hash="0" * 32, settings=types.CodeSettings()
    )


def holder(pids: list[int], link: Link) -> int | None:
    """Returns which of the processes has accepted the link."""
    host, port = link.writer.get_extra_info("sockname")[:2]
    remote = f"{int.from_bytes(bytes(map(int, host.split('.'))), 'little'):08X}:{port:04X}"
    for pid in pids:
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[2] == remote and f"socket:[{fields[9]}]" in _sockets(pid):
                return pid
    return None


def _sockets(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    return found


class Person(RawClient):
    """One device of one account, in one session."""

    def __init__(self, server: RunningServer) -> None:
        super().__init__(server.port, server.data_dir, server.host)
        self.server = server
        self.user_id = 0
        self.phone = ""
        self.heard: list[tuple[int, Any]] = []
        """(msg_id, message) of everything that came, in order."""

    async def connect_to(self, pid: int) -> None:
        """Opens a link to one worker in place of the one before.

        The kernel gives links to any worker, also to one that hangs: several are opened until one fits,
        and more when none is answered.
        """
        await self.close()
        self.link = None
        links: dict[asyncio.Task[Any], Link] = {}
        limit = LINKS_AT_ONCE
        while self.link is None:
            while len(links) < limit:
                link = await Link.open(self.port, self.host)
                link.send(ClientExchange(self._rsa_key).begin())
                links[asyncio.create_task(link.receive())] = link  # an answer says that it is accepted
            done, _ = await asyncio.wait(links, timeout=SILENT_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                limit = min(limit + LINKS_AT_ONCE, MOST_LINKS)
            for task in done:
                link = links.pop(task)
                if self.link is None and holder([pid], link) == pid:
                    self.link = link
                else:
                    await link.close()
        for task, link in links.items():
            task.cancel()
            await asyncio.wait([task])
            await link.close()

    async def join(self, pid: int | None = None, phone: str = "") -> Person:
        """Connects (to that worker) and logs in, to a new account or that of *phone*."""
        await self.connect()
        if pid is not None:
            await self.connect_to(pid)
        await self.learn_salt()
        self.phone = phone or f"{next(PHONES)}"
        settings = types.CodeSettings()
        sent = await self.ask(
            functions.auth.SendCode(phone_number=self.phone, api_id=1, api_hash="0" * 32, settings=settings)
        )
        fields = {"phone_number": self.phone, "phone_code_hash": sent.phone_code_hash}
        answer = await self.ask(functions.auth.SignIn(**fields, phone_code=CODE))
        if isinstance(answer, types.auth.AuthorizationSignUpRequired):
            answer = await self.ask(functions.auth.SignUp(**fields, first_name="P", last_name=""))
        assert isinstance(answer, types.auth.Authorization), answer
        self.user_id = answer.user.id
        return self

    async def take_temporary_key(self) -> None:
        """Makes a key that stands for none yet, as clients with perfect forward secrecy do."""
        link = await Link.open(self.port, self.host)
        exchange = ClientExchange(self._rsa_key, expires_in=3600)
        payload: bytes | None = exchange.begin()
        while payload is not None:
            link.send(payload)
            answer = await link.receive()
            assert isinstance(answer, bytes)
            payload = exchange.take(answer)
        await link.close()
        self.auth_key = exchange.auth_key

    async def bind(self, permanent: AuthKey) -> None:
        """Has the temporary key of this session stand for *permanent*."""
        assert self.auth_key is not None
        nonce, expires_at = next(RANDOM_IDS), int(time.time()) + 3600
        msg_id = self.next_msg_id()
        inner = mt.BindAuthKeyInner(
            nonce=nonce,
            temp_auth_key_id=self.auth_key.id,
            perm_auth_key_id=permanent.id,
            temp_session_id=self.session_id,
            expires_at=expires_at,
        )
        body = tl.write(inner)
        plain = os.urandom(16) + struct.pack("<qii", msg_id, 0, len(body)) + body
        query = functions.auth.BindTempAuthKey(
            perm_auth_key_id=permanent.id,
            nonce=nonce,
            expires_at=expires_at,
            encrypted_message=encrypt_message_v1(
                permanent, plain, from_server=False, padding=os.urandom(-len(plain) % 16)
            ),
        )
        assert await self.result_of(self.send(query, msg_id=msg_id)) is True

    async def peer(self, other: Person) -> types.InputPeerUser:
        """Returns the other as this account may name it."""
        contact = types.InputPhoneContact(client_id=1, phone=other.phone, first_name="O", last_name="")
        answer = await self.ask(functions.contacts.ImportContacts(contacts=[contact]))
        (user,) = answer.users
        return types.InputPeerUser(user_id=user.id, access_hash=user.access_hash)

    async def say(self, peer: types.InputPeerUser, text: str) -> Any:
        """Sends a text; returns the answer."""
        query = functions.messages.SendMessage(peer=peer, message=text, random_id=next(RANDOM_IDS))
        answer = await self.ask(query)
        assert not isinstance(answer, mt.RpcError), answer
        return answer

    async def receive(self) -> list[tuple[int, Any]] | None:
        """Returns the next packet's messages, which are noted, and acknowledges nothing."""
        messages = await super().receive()
        self.heard += messages or []
        return messages

    async def receive_to_end(self) -> None:
        """Returns when the server has closed the link."""
        while await self.receive() is not None:
            pass

    def next_random_id(self) -> int:
        """Returns a random_id of its own."""
        return next(RANDOM_IDS)

    async def maybe_result_of(self, msg_id: int) -> Any | None:
        """Returns the answer to a query, None when the server closed."""
        while (messages := await self.receive()) is not None:
            for _, message in messages:
                if isinstance(message, tuple) and message[1] == msg_id:
                    return message[2]
        return None

    def acknowledge(self) -> None:
        """Acknowledges all that came so far."""
        ids = [msg_id for msg_id, _ in self.heard if msg_id & 3]
        self.send(mt.MsgsAck(msg_ids=ids[-100:]), seq_no=self.next_seq_no(content_related=False))

    async def hear(self, text: str) -> None:
        """Returns once a message with this text was pushed, also before."""
        while text not in self.texts():
            messages = await self.receive()
            assert messages is not None, f"closed while waiting for {text!r}"

    def texts(self) -> list[str]:
        """The texts of all pushed messages, in the order they came."""
        return [
            update.message.message
            for _, message in self.heard
            for update in getattr(message, "updates", ())
            if isinstance(update, types.UpdateNewMessage)
        ]

    async def ping(self) -> None:
        """Returns when all that was sent before has come."""
        ping_id = next(RANDOM_IDS)
        self.send(mt.Ping(ping_id=ping_id))
        await self.wait_for(mt.Pong, ping_id=ping_id)
