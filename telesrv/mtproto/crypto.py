"""The ciphers and derivations of MTProto; every function is pure, and compares secrets in constant time.

This module is the one place that knows which library encrypts: AES-IGE comes from ``cryptg`` (it was the
fastest of the sound ones, and refuses nothing of a wrong length by itself, so that lengths are checked
here), AES-CTR from ``cryptography``. Nothing here reads a clock or draws random bytes.

*Spec: MTProto 2.0, detailed description; MTProto 1.0 description*
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

import cryptg
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from telesrv.mtproto.errors import DecryptionError

__all__ = [
    "AuthKey",
    "CtrStream",
    "bare_msg_key_v1",
    "decrypt_message",
    "decrypt_message_v1",
    "derive_aes_v1",
    "derive_salt",
    "encrypt_message",
    "ige_decrypt",
    "ige_encrypt",
    "quick_ack_token",
    "sha1",
    "sha256",
]

AUTH_KEY_BYTES: Final = 256
BLOCK_BYTES: Final = 16
HEADER_BYTES: Final = 24  # auth_key_id (8) + msg_key (16)
MIN_PLAINTEXT_BYTES: Final = (
    48  # salt, session_id, msg_id, seq_no and length (32), 12 of padding, whole blocks
)

_QUICK_ACK_BIT: Final = 0x8000_0000


def sha1(data: bytes) -> bytes:
    """Returns the 20 bytes of SHA-1 of ``data``, which the protocol prescribes."""
    return hashlib.sha1(data, usedforsecurity=False).digest()


def sha256(data: bytes) -> bytes:
    """Returns the 32 bytes of SHA-256 of ``data``."""
    return hashlib.sha256(data).digest()


def _check_ige(data: bytes, key: bytes, iv: bytes) -> None:
    if len(data) % BLOCK_BYTES or len(key) != 32 or len(iv) != 32:
        raise ValueError("AES-256-IGE wants whole 16-byte blocks, a 32-byte key and a 32-byte iv")


def ige_encrypt(data: bytes, key: bytes, iv: bytes) -> bytes:
    """Returns ``data`` encrypted by AES-256-IGE; the length is kept.

    Args:
        data: whole 16-byte blocks.
        key: 32 bytes.
        iv: 32 bytes: the previous ciphertext block, then the previous plaintext block.

    Raises:
        ValueError: a length is wrong (our bug, never the peer's).

    *Spec: MTProto 2.0, detailed description*
    """
    _check_ige(data, key, iv)
    encrypted: bytes = cryptg.encrypt_ige(data, key, iv)
    return encrypted


def ige_decrypt(data: bytes, key: bytes, iv: bytes) -> bytes:
    """Returns ``data`` decrypted by AES-256-IGE, the inverse of ``ige_encrypt``.

    Raises:
        ValueError: a length is wrong; callers check the peer's lengths first.

    *Spec: MTProto 2.0, detailed description*
    """
    _check_ige(data, key, iv)
    decrypted: bytes = cryptg.decrypt_ige(data, key, iv)
    return decrypted


class CtrStream:
    """One direction of an AES-256-CTR stream that keeps its counter from call to call.

    Encryption and decryption are the same operation; one object serves one direction only.

    *Spec: MTProto transports, "Transport obfuscation"*
    """

    __slots__ = ("_update",)

    def __init__(self, key: bytes, iv: bytes) -> None:
        self._update = Cipher(algorithms.AES256(key), modes.CTR(iv)).encryptor().update

    def update(self, data: bytes) -> bytes:
        """Returns ``data`` combined with the next ``len(data)`` bytes of the key stream."""
        return self._update(data)


class AuthKey:
    """A 2048-bit authorization key with its derived identifiers; it prints without its secret.

    ``id`` is the signed 64-bit integer of the last 8 bytes of SHA-1 of the key, little-endian;
    ``id_bytes`` are those bytes; ``aux_hash`` is the first 8 bytes of the same SHA-1, used in the
    new_nonce_hash of the key exchange.

    *Spec: Creating an Authorization Key; MTProto 2.0, detailed description*
    """

    __slots__ = ("aux_hash", "data", "id", "id_bytes")

    data: bytes
    id: int
    id_bytes: bytes
    aux_hash: bytes

    def __init__(self, data: bytes) -> None:
        if len(data) != AUTH_KEY_BYTES:
            raise ValueError(f"an auth_key has {AUTH_KEY_BYTES} bytes, not {len(data)}")
        digest = sha1(data)
        self.data = bytes(data)
        self.id_bytes = digest[12:20]
        self.id = int.from_bytes(self.id_bytes, "little", signed=True)
        self.aux_hash = digest[:8]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AuthKey) and hmac.compare_digest(self.data, other.data)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"AuthKey(id={self.id})"


def _offset(from_server: bool) -> int:
    return 8 if from_server else 0


def _msg_key_large(auth_key: AuthKey, plaintext: bytes, x: int) -> bytes:
    return sha256(auth_key.data[88 + x : 120 + x] + plaintext)


def _derive_aes(auth_key: AuthKey, msg_key: bytes, x: int) -> tuple[bytes, bytes]:
    """Returns (aes_key, aes_iv) for a msg_key of MTProto 2.0."""
    data = auth_key.data
    a = sha256(msg_key + data[x : x + 36])
    b = sha256(data[40 + x : 76 + x] + msg_key)
    return a[:8] + b[8:24] + a[24:], b[:8] + a[8:24] + b[24:]


def encrypt_message(auth_key: AuthKey, plaintext: bytes, *, from_server: bool, padding: bytes) -> bytes:
    """Returns auth_key_id (8), msg_key (16) and the ciphertext of ``plaintext + padding``.

    Args:
        auth_key: the key both sides share.
        plaintext: salt, session_id, msg_id, seq_no, length and body, without padding.
        from_server: the direction, which selects the part of the key that is used.
        padding: 12 to 1024 random bytes that fill up the last block.

    Raises:
        ValueError: plaintext and padding are not whole blocks.

    *Spec: MTProto 2.0, detailed description*
    """
    x = _offset(from_server)
    padded = plaintext + padding
    msg_key = _msg_key_large(auth_key, padded, x)[8:24]
    key, iv = _derive_aes(auth_key, msg_key, x)
    return auth_key.id_bytes + msg_key + ige_encrypt(padded, key, iv)


def decrypt_message(auth_key: AuthKey, payload: bytes, *, from_server: bool) -> bytes:
    """Returns the plaintext with its padding, only when auth_key_id and msg_key are right.

    The msg_key is recomputed over the whole plaintext and compared in constant time before a single byte
    of it is given out.

    Args:
        auth_key: the key the payload names.
        payload: auth_key_id (8), msg_key (16), ciphertext.
        from_server: the direction the payload travelled.

    Raises:
        DecryptionError: the payload is too short, not whole blocks, for another key, or forged.

    *Spec: MTProto 2.0, detailed description*
    """
    size = len(payload) - HEADER_BYTES
    if size < MIN_PLAINTEXT_BYTES or size % BLOCK_BYTES:
        raise DecryptionError(f"an encrypted part of {size} bytes is not a message")
    payload = bytes(payload)
    if payload[:8] != auth_key.id_bytes:
        raise DecryptionError("the message names another auth_key")
    x = _offset(from_server)
    msg_key = payload[8:HEADER_BYTES]
    key, iv = _derive_aes(auth_key, msg_key, x)
    plaintext = ige_decrypt(payload[HEADER_BYTES:], key, iv)
    if not hmac.compare_digest(_msg_key_large(auth_key, plaintext, x)[8:24], msg_key):
        raise DecryptionError("msg_key does not match the plaintext")
    return plaintext


def quick_ack_token(auth_key: AuthKey, plaintext: bytes) -> int:
    """Returns the unsigned 32-bit token that acknowledges a client's packet, its top bit set.

    Args:
        auth_key: the key of the message.
        plaintext: the client's plaintext with its padding, as ``decrypt_message`` returns it.

    *Spec: MTProto transports, "Quick ack"*
    """
    return int.from_bytes(_msg_key_large(auth_key, plaintext, 0)[:4], "little") | _QUICK_ACK_BIT


def derive_salt(secret: bytes, auth_key_id: int, period: int) -> int:
    """Returns the signed 64-bit server salt of one key in one period; it is never 0 and never stored.

    Args:
        secret: the secret that all processes share.
        auth_key_id: signed 64-bit id of the key.
        period: the number of the period, counted by the caller.

    *Spec: Mobile Protocol: Detailed Description, "Server salt"*
    """
    message = b"server_salt" + struct.pack("<qq", auth_key_id, period)
    salt = int.from_bytes(hmac.digest(secret, message, "sha256")[:8], "little", signed=True)
    return salt or 1


def bare_msg_key_v1(plaintext: bytes) -> bytes:
    """Returns the 16-byte msg_key of MTProto 1.0: the last 128 bits of SHA-1 of the unpadded plaintext."""
    return sha1(plaintext)[4:20]


def derive_aes_v1(auth_key: AuthKey, msg_key: bytes, *, from_server: bool) -> tuple[bytes, bytes]:
    """Returns (aes_key, aes_iv), 32 bytes each, for a msg_key of MTProto 1.0.

    *Spec: MTProto 1.0 description, "Defining AES Key and Initialization Vector"*
    """
    data, x = auth_key.data, _offset(from_server)
    a = sha1(msg_key + data[x : x + 32])
    b = sha1(data[32 + x : 48 + x] + msg_key + data[48 + x : 64 + x])
    c = sha1(data[64 + x : 96 + x] + msg_key)
    d = sha1(msg_key + data[96 + x : 128 + x])
    return a[:8] + b[8:20] + c[4:16], a[8:20] + b[:8] + c[16:20] + d[:8]


def decrypt_message_v1(auth_key: AuthKey, payload: bytes, *, from_server: bool) -> tuple[bytes, bytes]:
    """Returns (msg_key, plaintext with padding) of an MTProto 1.0 message, the msg_key **not yet checked**.

    The length of what msg_key covers stands inside the plaintext, so that the caller checks it, with
    ``bare_msg_key_v1`` and a constant-time comparison, before it uses anything else of it.

    Raises:
        DecryptionError: the payload is too short, not whole blocks, or for another key.

    *Spec: MTProto 1.0 description*
    """
    size = len(payload) - HEADER_BYTES
    if size < BLOCK_BYTES or size % BLOCK_BYTES:
        raise DecryptionError(f"an encrypted part of {size} bytes is not a message")
    payload = bytes(payload)
    if payload[:8] != auth_key.id_bytes:
        raise DecryptionError("the message names another auth_key")
    msg_key = payload[8:HEADER_BYTES]
    key, iv = derive_aes_v1(auth_key, msg_key, from_server=from_server)
    return msg_key, ige_decrypt(payload[HEADER_BYTES:], key, iv)
