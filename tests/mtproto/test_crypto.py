"""The ciphers against vectors of other implementations, and every way a forged message must fail."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telethon.crypto import AES  # a foreign implementation
from telethon.crypto import AuthKey as TelethonAuthKey
from telethon.network.mtprotostate import MTProtoState

from telesrv.mtproto import crypto
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.errors import DecryptionError
from telesrv.tl.errors import ProtocolError
from tests.support.mtproto_v1 import encrypt_message_v1

KEY = AuthKey(bytes(range(256)))
PLAIN = bytes(i * 7 % 256 for i in range(32))
PADDING = bytes(range(100, 116))


def test_ige_golden_vector_of_the_public_sample() -> None:
    # "Creating an Authorization Key", the sample: server_DH_inner_data behind its 20-byte hash.
    key = bytes.fromhex("F011280887C7BB01DF0FC4E17830E0B91FBB8BE4B2267CB985AE25F33B527253")
    iv = bytes.fromhex("3212D579EE35452ED23E0D0C92841AA7D31B2E9BDEF2151E80D15860311C85DB")
    encrypted = bytes.fromhex(
        "28A92FE20173B347A8BB324B5FAB2667C9A8BBCE6468D5B509A4CBDDC186240A"
        "C912CF7006AF8926DE606A2E74C0493CAA57741E6C82451F54D3E068F5CCC49B"
    )
    expected = bytes.fromhex("BA0D89B53E0549828CCA27E966B301A48FECE2FCA5CF4D33F4A11EA877BA4AA573907330")
    decrypted = crypto.ige_decrypt(encrypted, key, iv)
    assert decrypted[20:56] == expected
    assert crypto.ige_encrypt(decrypted, key, iv) == encrypted


def test_ige_by_its_definition() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

    key, iv, data = bytes(range(32)), bytes(range(32, 64)), bytes(i * 5 % 256 for i in range(64))
    block = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    previous_cipher, previous_plain, expected = iv[:16], iv[16:], b""
    for start in range(0, len(data), 16):
        plain = data[start : start + 16]
        mixed = bytes(a ^ b for a, b in zip(plain, previous_cipher, strict=True))
        out = bytes(a ^ b for a, b in zip(block.update(mixed), previous_plain, strict=True))
        expected += out
        previous_cipher, previous_plain = out, plain
    assert crypto.ige_encrypt(data, key, iv) == expected
    assert crypto.ige_decrypt(expected, key, iv) == data


@given(st.binary(max_size=20).map(lambda b: b * 16), st.binary(min_size=32, max_size=32))
def test_ige_agrees_with_a_foreign_implementation(data: bytes, key: bytes) -> None:
    iv = hashlib.sha256(key).digest()
    encrypted = crypto.ige_encrypt(data, key, iv)
    assert encrypted == (AES.encrypt_ige(data, key, iv) if data else b"")
    assert crypto.ige_decrypt(encrypted, key, iv) == data


@pytest.mark.parametrize(("size", "key", "iv"), [(31, 32, 32), (32, 16, 32), (32, 32, 16)])
def test_ige_refuses_wrong_lengths(size: int, key: int, iv: int) -> None:
    for cipher in (crypto.ige_encrypt, crypto.ige_decrypt):
        with pytest.raises(ValueError, match="IGE"):
            cipher(bytes(size), bytes(key), bytes(iv))


def test_ctr_golden_and_streaming() -> None:
    # NIST SP 800-38A, F.5.5 CTR-AES256.Encrypt
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    iv = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
    expected = bytes.fromhex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5")
    assert crypto.CtrStream(key, iv).update(plain) == expected
    stream = crypto.CtrStream(key, iv)
    assert b"".join(stream.update(plain[i : i + 1]) for i in range(len(plain))) == expected


def test_auth_key_identifiers() -> None:
    digest = hashlib.sha1(bytes(range(256)), usedforsecurity=False).digest()
    assert KEY.id_bytes == digest[-8:]
    assert KEY.id.to_bytes(8, "little", signed=True) == digest[-8:]
    assert KEY.aux_hash == digest[:8]
    assert KEY.data.hex() not in repr(KEY)
    assert AuthKey(KEY.data) == KEY
    assert AuthKey(bytes(256)) != KEY
    assert TelethonAuthKey(KEY.data).key_id == KEY.id % 2**64
    with pytest.raises(ValueError, match="256"):
        AuthKey(bytes(255))


def test_encrypt_message_golden() -> None:
    encrypted = crypto.encrypt_message(KEY, PLAIN, from_server=False, padding=PADDING)
    msg_key = hashlib.sha256(KEY.data[88:120] + PLAIN + PADDING).digest()[8:24]
    assert encrypted[:8] == KEY.id_bytes
    assert encrypted[8:24] == msg_key
    aes_key, aes_iv = MTProtoState._calc_key(KEY.data, msg_key, True)
    assert encrypted[24:] == AES.encrypt_ige(PLAIN + PADDING, aes_key, aes_iv)


@pytest.mark.parametrize("from_server", [False, True])
def test_message_round_trip(from_server: bool) -> None:
    encrypted = crypto.encrypt_message(KEY, PLAIN, from_server=from_server, padding=PADDING)
    assert crypto.decrypt_message(KEY, encrypted, from_server=from_server) == PLAIN + PADDING
    with pytest.raises(DecryptionError):
        crypto.decrypt_message(KEY, encrypted, from_server=not from_server)


def test_one_flipped_bit_anywhere_is_noticed() -> None:
    encrypted = crypto.encrypt_message(KEY, PLAIN, from_server=False, padding=PADDING)
    for bit in range(len(encrypted) * 8):
        forged = bytearray(encrypted)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecryptionError):
            crypto.decrypt_message(KEY, bytes(forged), from_server=False)


@pytest.mark.parametrize("size", [*range(72), *range(73, 88), 89])
def test_lengths_that_no_message_has(size: int) -> None:
    payload = (KEY.id_bytes + bytes(100))[:size]
    with pytest.raises(DecryptionError, match="bytes is not a message"):
        crypto.decrypt_message(KEY, payload, from_server=False)


@given(st.binary(max_size=200))
def test_garbage_raises_only_protocol_errors(data: bytes) -> None:
    for payload in (data, KEY.id_bytes + data):
        with pytest.raises(ProtocolError):
            crypto.decrypt_message(KEY, payload, from_server=False)


def test_quick_ack_token() -> None:
    digest = hashlib.sha256(KEY.data[88:120] + PLAIN).digest()
    token = crypto.quick_ack_token(KEY, PLAIN)
    assert token == int.from_bytes(digest[:4], "little") | 1 << 31


def test_derived_salts_differ_by_each_input() -> None:
    seen = {
        crypto.derive_salt(secret, key_id, period)
        for secret in (b"a" * 32, b"b" * 32)
        for key_id in (-(2**63), -1, 0, 2**63 - 1)
        for period in (0, 1, 2**40)
    }
    assert len(seen) == 24
    assert all(-(2**63) <= salt < 2**63 and salt for salt in seen)
    assert crypto.derive_salt(b"a", 1, 1) == crypto.derive_salt(b"a", 1, 1)


def test_v1_round_trip_and_lengths() -> None:
    plain = PLAIN + b"12345678"
    encrypted = encrypt_message_v1(KEY, plain, from_server=False, padding=bytes(8))
    msg_key, padded = crypto.decrypt_message_v1(KEY, encrypted, from_server=False)
    assert padded == plain + bytes(8)
    assert msg_key == crypto.bare_msg_key_v1(plain) == hashlib.sha1(plain, usedforsecurity=False).digest()[4:]
    for bad in (encrypted[:-1], encrypted[:24], b"x" * 8 + encrypted[8:]):
        with pytest.raises(DecryptionError):
            crypto.decrypt_message_v1(KEY, bad, from_server=False)
