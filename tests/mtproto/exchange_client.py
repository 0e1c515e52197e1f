"""A client's side of the key exchange, from the public page; any value it sends can be falsified."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gmpy2
from telethon.crypto import AES, Factorization  # a foreign cipher

from telesrv import tl
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.exchange import Compute, ExchangeEvent, KeyCreated, Send, ServerExchange
from telesrv.mtproto.rsa import RSAKey
from telesrv.tl import mt


def sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()


def xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def rsa_pad(data: bytes, key: RSAKey) -> bytes:
    """RSA_PAD: a fresh temp_key until the block is below the modulus."""
    data = data + os.urandom(192 - len(data))
    while True:
        temp_key = os.urandom(32)
        hashed = data[::-1] + hashlib.sha256(temp_key + data).digest()
        encrypted = AES.encrypt_ige(hashed, temp_key, bytes(32))
        block = xor(temp_key, hashlib.sha256(encrypted).digest()) + encrypted
        if int.from_bytes(block, "big") < key.n:
            return rsa_bare(block, key)


def rsa_old(data: bytes, key: RSAKey) -> bytes:
    """The padding that came before: SHA-1, data, random bytes, 255 in all."""
    block = sha1(data) + data
    return rsa_bare(block + os.urandom(255 - len(block)), key)


def rsa_bare(block: bytes, key: RSAKey) -> bytes:
    return pow(int.from_bytes(block, "big"), key.e, key.n).to_bytes(256, "big")


@dataclass
class ClientExchange:
    """One exchange; ``falsify`` maps the name of a value to a function that changes it before it is used."""

    key: RSAKey
    padding: Callable[[bytes, RSAKey], bytes] = rsa_pad
    dc_id: int | None = None
    expires_in: int | None = None
    surplus: bytes = b""
    falsify: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    nonce: bytes = field(default_factory=lambda: os.urandom(16))
    new_nonce: bytes = field(default_factory=lambda: os.urandom(32))
    server_nonce: bytes = b""
    retry_id: int = 0
    auth_key: AuthKey | None = None
    agreed: bool = False
    answers: list[object] = field(default_factory=list)
    msg_ids: list[int] = field(default_factory=list)
    dh_params: mt.ServerDHInnerData | None = None

    def _value(self, name: str, value: Any) -> Any:
        return self.falsify.get(name, lambda v: v)(value)

    def _message(self, query: object) -> bytes:
        body = tl.write(query) + self.surplus
        return struct.pack("<qqi", 0, 4 << 32, len(body)) + body

    def begin(self, *, legacy: bool = False) -> bytes:
        return self._message((mt.ReqPq if legacy else mt.ReqPqMulti)(nonce=self.nonce))

    def take(self, payload: bytes) -> bytes | None:
        """Return the answer to a message of the server, or None at the end."""
        auth_key_id, msg_id, size = struct.unpack_from("<qqi", payload)
        assert auth_key_id == 0
        assert size == len(payload) - 20
        self.msg_ids.append(msg_id)
        answer = tl.read(payload[20:])
        self.answers.append(answer)
        assert answer.nonce == self.nonce
        if isinstance(answer, mt.ResPQ):
            return self._request_dh(answer)
        assert answer.server_nonce == self.server_nonce
        if isinstance(answer, mt.ServerDHParamsOk):
            return self._answer_dh(answer)
        assert self.auth_key is not None
        number = 1 if isinstance(answer, mt.DhGenOk) else 2
        found = answer.new_nonce_hash1 if isinstance(answer, mt.DhGenOk) else answer.new_nonce_hash2
        assert found == sha1(self.new_nonce, bytes([number]), self.auth_key.aux_hash)[4:]
        if isinstance(answer, mt.DhGenOk):
            self.agreed = True
            return None
        self.retry_id = int.from_bytes(self.auth_key.aux_hash, "little", signed=True)
        return self._set_dh()

    def _request_dh(self, answer: mt.ResPQ) -> bytes:
        self.server_nonce = answer.server_nonce
        assert self.key.fingerprint in answer.server_public_key_fingerprints
        number = int.from_bytes(answer.pq, "big")
        assert number < 2**63
        p, q = 1, number
        while p == 1:  # it goes by chance, and now and then finds no factor
            p, q = Factorization.factorize(number)
        assert p < q < 2**31
        values: dict[str, Any] = {
            "pq": self._value("inner.pq", answer.pq),
            "p": self._value("inner.p", p.to_bytes(4, "big")),
            "q": self._value("inner.q", q.to_bytes(4, "big")),
            "nonce": self._value("inner.nonce", self.nonce),
            "server_nonce": self._value("inner.server_nonce", self.server_nonce),
            "new_nonce": self.new_nonce,
        }
        inner: object
        if self.expires_in is not None and self.dc_id is not None:
            inner = mt.PQInnerDataTempDc(**values, dc=self.dc_id, expires_in=self.expires_in)
        elif self.expires_in is not None:
            inner = mt.PQInnerDataTemp(**values, expires_in=self.expires_in)
        elif self.dc_id is not None:
            inner = mt.PQInnerDataDc(**values, dc=self.dc_id)
        else:
            inner = mt.PQInnerData(**values)
        data = tl.write(self._value("inner", inner))
        query = mt.ReqDHParams(
            nonce=self._value("nonce", self.nonce),
            server_nonce=self._value("server_nonce", self.server_nonce),
            p=self._value("p", p.to_bytes(4, "big")),
            q=self._value("q", q.to_bytes(4, "big")),
            public_key_fingerprint=self._value("fingerprint", self.key.fingerprint),
            encrypted_data=self._value("encrypted_data", self.padding(data, self.key)),
        )
        return self._message(self._value("query", query))

    def _tmp_aes(self) -> tuple[bytes, bytes]:
        new, server = self.new_nonce, self.server_nonce
        key = sha1(new, server) + sha1(server, new)[:12]
        return key, sha1(server, new)[12:] + sha1(new, new) + new[:4]

    def _answer_dh(self, answer: mt.ServerDHParamsOk) -> bytes:
        plain = AES.decrypt_ige(answer.encrypted_answer, *self._tmp_aes())
        inner, end = tl.read_prefix(plain[20:])
        assert isinstance(inner, mt.ServerDHInnerData)
        assert plain[:20] == sha1(plain[20 : 20 + end])
        assert len(plain) - 20 - end < 16
        assert (inner.nonce, inner.server_nonce, inner.g) == (self.nonce, self.server_nonce, 3)
        prime, g_a = (int.from_bytes(v, "big") for v in (inner.dh_prime, inner.g_a))
        assert prime.bit_length() == 2048
        assert 2**1984 <= g_a <= prime - 2**1984
        self.dh_params = inner
        return self._set_dh()

    def _set_dh(self) -> bytes:
        assert self.dh_params is not None
        prime, g_a = (int.from_bytes(v, "big") for v in (self.dh_params.dh_prime, self.dh_params.g_a))
        b = int.from_bytes(os.urandom(256), "big")
        g_b = int(gmpy2.powmod(3, b, prime)).to_bytes(256, "big")
        self.auth_key = AuthKey(int(gmpy2.powmod(g_a, b, prime)).to_bytes(256, "big"))
        inner = mt.ClientDHInnerData(
            nonce=self._value("dh.nonce", self.nonce),
            server_nonce=self._value("dh.server_nonce", self.server_nonce),
            retry_id=self._value("dh.retry_id", self.retry_id),
            g_b=self._value("dh.g_b", g_b),
        )
        data = tl.write(self._value("dh.inner", inner))
        hashed = self._value("dh.hash", sha1(data)) + data
        padded = self._value("dh.padded", hashed + os.urandom(-len(hashed) % 16))
        query = mt.SetClientDHParams(
            nonce=self._value("set.nonce", self.nonce),
            server_nonce=self._value("set.server_nonce", self.server_nonce),
            encrypted_data=self._value("set.encrypted_data", AES.encrypt_ige(padded, *self._tmp_aes())),
        )
        return self._message(query)


def serve(
    server: ServerExchange, payload: bytes, now: float = 1.8e9, *, collisions: int = 0
) -> tuple[list[bytes], list[KeyCreated]]:
    """Give ``payload`` to the server and do what it says; return what it sends and the keys it made."""
    sent: list[bytes] = []
    created: list[KeyCreated] = []
    events: list[ExchangeEvent] = server.receive(payload, now)
    while events:
        event = events.pop(0)
        if isinstance(event, Send):
            sent.append(event.payload)
        elif isinstance(event, Compute):
            events += server.computed(event.job(), now)
        else:
            created.append(event)
            events += server.collision(now) if len(created) <= collisions else server.persisted(now)
    return sent, created


def agree(
    server: ServerExchange, client: ClientExchange, *, collisions: int = 0, legacy: bool = False
) -> list[KeyCreated]:
    """Run one exchange to its end and return the keys the server made, the last one being the good one."""
    created: list[KeyCreated] = []
    payload: bytes | None = client.begin(legacy=legacy)
    while payload is not None:
        sent, keys = serve(server, payload, collisions=max(0, collisions - len(created)))
        created += keys
        (answer,) = sent
        payload = client.take(answer)
    return created
