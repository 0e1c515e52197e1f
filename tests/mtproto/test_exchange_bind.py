"""The binding of a temporary key: one good message, and each field of it falsified."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telethon.crypto import AES  # a foreign cipher

from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.errors import BindError
from telesrv.mtproto.exchange_bind import verify_bind_temp_auth_key
from tests.support.mtproto_v1 import encrypt_message_v1

PERMANENT = AuthKey(bytes(i * 11 % 256 for i in range(256)))
OTHER = AuthKey(bytes(i * 13 % 256 for i in range(256)))


@dataclass(frozen=True)
class Binding:
    """What a client puts into encrypted_message, with the values its request has as defaults."""

    msg_id: int = 0x5E0B700A00000004
    seq_no: int = 0
    size: int = 40
    constructor: int = 0x75A3F765
    nonce: int = -(2**63)
    temp_auth_key_id: int = -5
    perm_auth_key_id: int = PERMANENT.id
    temp_session_id: int = 2**63 - 1
    expires_at: int = 1_800_000_000
    padding: int = 8

    def plaintext(self) -> bytes:
        inner = struct.pack(
            "<Iqqqqi",
            self.constructor,
            self.nonce,
            self.temp_auth_key_id,
            self.perm_auth_key_id,
            self.temp_session_id,
            self.expires_at,
        )
        assert len(inner) == 40
        return os.urandom(16) + struct.pack("<qii", self.msg_id, self.seq_no, self.size) + inner

    def encrypted(self, key: AuthKey = PERMANENT, forged_msg_key: bytes = b"") -> bytes:
        """MTProto 1.0 as its page gives it, client to server."""

        def h(*parts: bytes) -> bytes:
            return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()

        plain, data = self.plaintext(), key.data
        msg_key = forged_msg_key or h(plain)[4:20]
        a = h(msg_key, data[0:32])
        b = h(data[32:48], msg_key, data[48:64])
        c = h(data[64:96], msg_key)
        d = h(msg_key, data[96:128])
        aes_key = a[0:8] + b[8:20] + c[4:16]
        aes_iv = a[8:20] + b[0:8] + c[16:20] + d[0:8]
        encrypted: bytes = AES.encrypt_ige(plain + os.urandom(self.padding), aes_key, aes_iv)
        return h(data)[12:] + msg_key + encrypted


GOOD = Binding()


def verify(encrypted: bytes, key: AuthKey = PERMANENT) -> None:
    verify_bind_temp_auth_key(
        key, GOOD.temp_auth_key_id, GOOD.temp_session_id, GOOD.msg_id, GOOD.nonce, GOOD.expires_at, encrypted
    )


def test_a_good_binding_passes() -> None:
    verify(GOOD.encrypted())


@pytest.mark.parametrize(
    "wrong",
    [
        replace(GOOD, msg_id=GOOD.msg_id + 4),
        replace(GOOD, seq_no=1),
        replace(GOOD, size=36),
        replace(GOOD, size=0),
        replace(GOOD, size=-1),
        replace(GOOD, constructor=0x7ABE77EC),  # ping
        replace(GOOD, constructor=0),
        replace(GOOD, nonce=GOOD.nonce + 1),
        replace(GOOD, temp_auth_key_id=-6),
        replace(GOOD, perm_auth_key_id=OTHER.id),
        replace(GOOD, temp_session_id=1),
        replace(GOOD, expires_at=GOOD.expires_at + 1),
        replace(GOOD, padding=24),
    ],
    ids=lambda w: ",".join(f for f in vars(w) if getattr(w, f) != getattr(GOOD, f)),
)
def test_each_field_is_checked(wrong: Binding) -> None:
    with pytest.raises(BindError):
        verify(wrong.encrypted())


def test_it_must_be_encrypted_with_the_permanent_key() -> None:
    with pytest.raises(BindError):
        verify(GOOD.encrypted(OTHER))
    with pytest.raises(BindError):
        verify(PERMANENT.id_bytes + GOOD.encrypted(OTHER)[8:])
    with pytest.raises(BindError):
        verify(GOOD.encrypted(), OTHER)


def test_a_msg_key_of_another_message_is_refused_though_all_fields_fit() -> None:
    with pytest.raises(BindError, match="msg_key"):
        verify(GOOD.encrypted(forged_msg_key=bytes(range(16))))


def test_the_direction_is_checked() -> None:
    encrypted = encrypt_message_v1(PERMANENT, GOOD.plaintext(), from_server=True, padding=bytes(8))
    with pytest.raises(BindError):
        verify(encrypted)


def test_one_flipped_bit_anywhere_is_noticed() -> None:
    encrypted = GOOD.encrypted()
    # The last block holds the padding, which msg_key does not cover: its plaintext's first half is data.
    for position in range((len(encrypted) - 8) * 8):
        forged = bytearray(encrypted)
        forged[position // 8] ^= 1 << position % 8
        with pytest.raises(BindError):
            verify(bytes(forged))


@given(st.binary(max_size=200) | st.binary(min_size=104, max_size=104))
def test_garbage_raises_only_bind_errors(data: bytes) -> None:
    for encrypted in (data, PERMANENT.id_bytes + data, PERMANENT.id_bytes + data[:96]):
        with pytest.raises(BindError):
            verify(encrypted)
