"""A client that says exactly what a test tells it to, byte for byte, over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import struct
import time
from pathlib import Path
from typing import Any

from telesrv import tl
from telesrv.mtproto.crypto import AuthKey, decrypt_message, encrypt_message
from telesrv.mtproto.messages import MSG_CONTAINER, Message, encode_container, parse_container
from telesrv.mtproto.rsa import load_private_pem
from telesrv.tl import functions, mt
from tests.mtproto.exchange_client import ClientExchange
from tests.mtproto.transport_client import ClientTransport

RPC_RESULT = 0xF35C6D01
WAIT_S = 120.0
"""How long an answer may take; only a failure takes so long."""


class Link:
    """One TCP connection in the intermediate framing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.framing = ClientTransport("intermediate")

    @classmethod
    async def open(cls, port: int, host: str = "127.0.0.1") -> Link:
        """Connects and says which framing follows."""
        link = cls(*await asyncio.open_connection(host, port))
        link.writer.write(link.framing.opening)
        return link

    def send(self, payload: bytes, *, quick_ack: bool = False) -> None:
        """Sends one payload."""
        self.writer.write(self.framing.pack(payload, quick_ack=quick_ack))

    async def receive(self) -> bytes | int | None:
        """Returns the next payload, a quick-ack token, or None when the server closed."""
        try:
            async with asyncio.timeout(WAIT_S):
                head = await self.reader.readexactly(4)
                (size,) = struct.unpack("<I", head)
                return size if size & 0x80000000 else await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def close(self) -> None:
        """Closes the connection."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class RawClient:
    """One auth key and one session."""

    def __init__(self, port: int, data_dir: Path, host: str = "127.0.0.1") -> None:
        self.port = port
        self.host = host
        self.session_id = int.from_bytes(os.urandom(8), "little", signed=True)
        self.salt = 0
        self.seq = 0
        self._rsa_key = load_private_pem(data_dir / "server_rsa.pem")
        self._last_msg_id = 0
        self._ids = itertools.count(1)
        self.auth_key: AuthKey | None = None
        self.link: Link | None = None
        self.inbox: list[tuple[int, Any]] = []

    async def connect(self) -> Link:
        """Opens a link in place of the one before; makes the key if there is none."""
        await self.close()
        self.link = await Link.open(self.port, self.host)
        if self.auth_key is None:
            exchange = ClientExchange(self._rsa_key)
            payload: bytes | None = exchange.begin()
            while payload is not None:
                self.link.send(payload)
                answer = await self.link.receive()
                assert isinstance(answer, bytes)
                payload = exchange.take(answer)
            self.auth_key = exchange.auth_key
        return self.link

    async def close(self) -> None:
        """Closes the link."""
        if self.link is not None:
            await self.link.close()

    def next_msg_id(self, *, at: float | None = None) -> int:
        """Returns a msg_id of now, or of *at*."""
        if at is not None:
            return int(at) << 32 | next(self._ids) << 2
        self._last_msg_id = max(self._last_msg_id + 4, int(time.time() * (1 << 32)) & ~3)
        return self._last_msg_id

    def next_seq_no(self, *, content_related: bool = True) -> int:
        """Returns the next seq_no."""
        seq_no = self.seq * 2 + content_related
        self.seq += content_related
        return seq_no

    def packet(
        self,
        body: bytes,
        *,
        msg_id: int | None = None,
        seq_no: int | None = None,
        salt: int | None = None,
        session_id: int | None = None,
        claimed_bytes: int | None = None,
        padding: int | None = None,
    ) -> bytes:
        """Returns one encrypted packet; whatever is not given is what a good client would say."""
        assert self.auth_key is not None
        plaintext = struct.pack(
            "<qqqiI",
            self.salt if salt is None else salt,
            self.session_id if session_id is None else session_id,
            self.next_msg_id() if msg_id is None else msg_id,
            self.next_seq_no() if seq_no is None else seq_no,
            len(body) if claimed_bytes is None else claimed_bytes,
        )
        plaintext += body
        count = 12 + -(len(plaintext) + 12) % 16 if padding is None else padding
        return encrypt_message(self.auth_key, plaintext, from_server=False, padding=os.urandom(count))

    def send(self, query: object, **fields: Any) -> int:
        """Sends one query; returns its msg_id."""
        assert self.link is not None
        msg_id = fields.pop("msg_id", None) or self.next_msg_id()
        self.link.send(self.packet(tl.write(query), msg_id=msg_id, **fields))
        return msg_id

    async def receive(self) -> list[tuple[int, Any]] | None:
        """Returns the messages of the next packet as (msg_id, object); None when the server closed.

        An rpc_result is given as ("result", req_msg_id, object).
        """
        assert self.link is not None
        assert self.auth_key is not None
        payload = await self.link.receive()
        if payload is None or isinstance(payload, int) or len(payload) == 4:
            return None
        plaintext = decrypt_message(self.auth_key, payload, from_server=True)
        _, session_id, msg_id, seq_no, length = struct.unpack_from("<qqqiI", plaintext)
        assert session_id == self.session_id
        body = plaintext[32 : 32 + length]
        messages = [Message(msg_id, seq_no, body)]
        if int.from_bytes(body[:4], "little") == MSG_CONTAINER:
            messages = parse_container(body, 2048)
        found: list[tuple[int, Any]] = []
        for message in messages:
            content = bytes(message.body)
            if int.from_bytes(content[:4], "little") == RPC_RESULT:
                (req_msg_id,) = struct.unpack_from("<q", content, 4)
                found.append((message.msg_id, ("result", req_msg_id, tl.read(content[12:]))))
            else:
                found.append((message.msg_id, tl.read(content)))
        return found

    async def wait_for(self, kind: type, **fields: Any) -> Any:
        """Returns the next message of a class whose fields are as given; others are dropped."""
        while True:
            messages = await self.receive()
            assert messages is not None, f"closed while waiting for {kind.__name__}"
            for _, message in messages:
                if isinstance(message, kind) and all(
                    getattr(message, name) == value for name, value in fields.items()
                ):
                    return message

    async def result_of(self, msg_id: int) -> Any:
        """Returns the answer to a query."""
        while True:
            messages = await self.receive()
            assert messages is not None, "closed while waiting for a result"
            for _, message in messages:
                if isinstance(message, tuple) and message[1] == msg_id:
                    return message[2]

    async def learn_salt(self) -> None:
        """Pings with a wrong salt and takes the right one."""
        msg_id = self.send(mt.Ping(ping_id=1), salt=0)
        notice = await self.wait_for(mt.BadServerSalt, bad_msg_id=msg_id)
        self.salt = notice.new_server_salt

    async def open(self) -> None:
        """Connects and gets ready to ask."""
        await self.connect()
        await self.learn_salt()

    async def ask(self, query: object, layer: int = tl.LAYER) -> Any:
        """Sends a query inside invokeWithLayer(initConnection) and returns its answer."""
        wrapped = functions.InvokeWithLayer(
            layer=layer,
            query=functions.InitConnection(
                api_id=1,
                device_model="raw",
                system_version="1",
                app_version="1",
                system_lang_code="en",
                lang_pack="",
                lang_code="en",
                query=query,
            ),
        )
        return await self.result_of(self.send(wrapped))


def container(messages: list[tuple[int, int, bytes]]) -> bytes:
    """Returns a msg_container."""
    return encode_container([Message(*message) for message in messages])
