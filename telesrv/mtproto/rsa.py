"""The server's RSA key: made once, kept in PEM files, used only to open the inner data of a key exchange.

Private operations run by the Chinese remainder theorem in gmpy2's constant-time exponentiation, with the
interpreter lock released; call them in a thread.

*Spec: Creating an Authorization Key*
"""

from __future__ import annotations

import contextlib
import hmac
import os
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gmpy2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa as crypto_rsa

from telesrv.mtproto.crypto import ige_decrypt, sha1, sha256
from telesrv.mtproto.errors import ExchangeError

__all__ = [
    "RSAKey",
    "generate_rsa_key",
    "has_portable_fingerprint",
    "load_or_generate_rsa_key",
    "load_private_pem",
    "load_public_pem",
    "power",
    "public_fingerprint",
    "save_private_pem",
    "unpad_old",
    "unpad_rsa_pad",
]

KEY_BITS: Final = 2048
KEY_BYTES: Final = 256
PUBLIC_EXPONENT: Final = 65537
RSA_PAD_DATA_BYTES: Final = 192  # data and its padding inside RSA_PAD
OLD_HEADER_BYTES: Final = 21  # the zero byte of a 255-byte block, and SHA-1


def power(base: int, exponent: int, modulus: int) -> int:
    """Returns ``base ** exponent mod modulus`` in time that does not depend on the exponent's bits.

    The interpreter lock is released meanwhile, so that a thread pool uses every core.

    Args:
        base: any non-negative integer.
        exponent: a positive integer, secret.
        modulus: an odd integer.

    *Spec: Security Guidelines for Client Developers, "Diffie-Hellman key exchange"*
    """
    with gmpy2.context(gmpy2.get_context(), allow_release_gil=True):
        return int(gmpy2.powmod_sec(base, exponent, modulus))


def _tl_bytes(data: bytes) -> bytes:
    """Returns ``data`` (shorter than 16 MiB) as the TL serializes bytes."""
    size = len(data)
    head = bytes((size,)) if size < 254 else b"\xfe" + struct.pack("<I", size)[:3]
    return head + data + bytes(-(len(head) + size) % 4)


def public_fingerprint(n: int, e: int) -> int:
    """Returns the signed 64-bit fingerprint of a public key: the last 8 bytes of SHA-1 of its bare TL form.

    *Spec: Creating an Authorization Key, "Server responds with"*
    """
    body = b"".join(_tl_bytes(v.to_bytes((v.bit_length() + 7) // 8, "big")) for v in (n, e))
    return int.from_bytes(sha1(body)[12:20], "little", signed=True)


def has_portable_fingerprint(fingerprint: int) -> bool:
    """Tells whether no client can stumble over the fingerprint's leading zeros.

    Some clients compare it as unpadded hexadecimal, in one piece or in two halves, in either byte order;
    such a key would work with most clients and fail with a few, so that no such key is generated.
    """
    raw = fingerprint.to_bytes(8, "little", signed=True)
    return all(raw[i] >> 4 for i in (0, 3, 4, 7))


@dataclass(frozen=True, slots=True, repr=False)
class RSAKey:
    """A 2048-bit private key with its CRT parts; it prints as its fingerprint only."""

    n: int
    e: int
    d: int
    p: int
    q: int
    dp: int
    dq: int
    q_inverse: int
    fingerprint: int

    @classmethod
    def from_private(cls, private: crypto_rsa.RSAPrivateKey) -> RSAKey:
        """Returns the key of a ``cryptography`` private key.

        Raises:
            ValueError: it is not a 2048-bit key, which the key exchange requires.
        """
        if private.key_size != KEY_BITS:
            raise ValueError(f"an RSA key of {KEY_BITS} bits is needed, not {private.key_size}")
        numbers = private.private_numbers()
        public = numbers.public_numbers
        return cls(
            n=public.n,
            e=public.e,
            d=numbers.d,
            p=numbers.p,
            q=numbers.q,
            dp=numbers.dmp1,
            dq=numbers.dmq1,
            q_inverse=numbers.iqmp,
            fingerprint=public_fingerprint(public.n, public.e),
        )

    def decrypt_raw(self, encrypted: bytes) -> bytes:
        """Returns the 256 bytes, big-endian, of the bare private operation on ``encrypted``.

        Raises:
            ExchangeError: not 256 bytes, or a number that is not below the modulus.
        """
        if len(encrypted) != KEY_BYTES:
            raise ExchangeError(f"encrypted_data has {len(encrypted)} bytes, not {KEY_BYTES}")
        c = int.from_bytes(encrypted, "big")
        if c >= self.n:
            raise ExchangeError("encrypted_data is not below the modulus")
        m_q = power(c % self.q, self.dq, self.q)
        h = (power(c % self.p, self.dp, self.p) - m_q) * self.q_inverse % self.p
        return (m_q + h * self.q).to_bytes(KEY_BYTES, "big")

    def _private(self) -> crypto_rsa.RSAPrivateKey:
        public = crypto_rsa.RSAPublicNumbers(self.e, self.n)
        return crypto_rsa.RSAPrivateNumbers(
            self.p, self.q, self.d, self.dp, self.dq, self.q_inverse, public
        ).private_key()

    def private_pem(self) -> bytes:
        """Returns the private key as unencrypted PKCS#1 PEM."""
        return self._private().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )

    def public_pem(self) -> bytes:
        """Returns the public key as PKCS#1 PEM (``BEGIN RSA PUBLIC KEY``), the form clients take."""
        return (
            self._private()
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.PKCS1)
        )

    def __repr__(self) -> str:
        return f"RSAKey(fingerprint={self.fingerprint % 2**64:016x})"


def generate_rsa_key() -> RSAKey:
    """Returns a new 2048-bit key with e = 65537 whose fingerprint every known client compares rightly."""
    while True:
        key = RSAKey.from_private(crypto_rsa.generate_private_key(PUBLIC_EXPONENT, KEY_BITS))
        if has_portable_fingerprint(key.fingerprint):
            return key


def load_private_pem(path: Path) -> RSAKey:
    """Returns the private key in the PEM file at ``path``.

    Raises:
        OSError: the file cannot be read.
        ValueError: it does not hold an unencrypted 2048-bit RSA private key.
    """
    try:
        private = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None  # no PEM, a public key, a key with a password, an algorithm of another kind
    if not isinstance(private, crypto_rsa.RSAPrivateKey):
        raise ValueError(
            f"an RSA private key of {KEY_BITS} bits in PEM, without a password, is needed, such as "
            f"`openssl genrsa {KEY_BITS}` makes"
        )
    return RSAKey.from_private(private)


def load_public_pem(pem: bytes) -> tuple[int, int]:
    """Returns (n, e) of a public key PEM, PKCS#1 or SubjectPublicKeyInfo.

    Raises:
        ValueError: ``pem`` does not hold a 2048-bit RSA public key.
    """
    public = serialization.load_pem_public_key(pem)
    if not isinstance(public, crypto_rsa.RSAPublicKey) or public.key_size != KEY_BITS:
        raise ValueError(f"a PEM with an RSA public key of {KEY_BITS} bits is needed")
    numbers = public.public_numbers()
    return numbers.n, numbers.e


def save_private_pem(key: RSAKey, path: Path) -> None:
    """Writes the private key to a new file of mode 0600, complete or not at all; never over another file.

    Raises:
        FileExistsError: ``path`` exists; it is left as it was.
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.private_pem())
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)  # unlike a rename, this never replaces the key another process just made
    finally:
        os.unlink(temporary)


def load_or_generate_rsa_key(path: Path) -> RSAKey:
    """Returns the key at ``path``, generating it first where there is none.

    Processes that start together end with the same key: one writes it and the others load what it wrote.

    Raises:
        OSError, ValueError: as ``load_private_pem`` and ``save_private_pem``.
    """
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            save_private_pem(generate_rsa_key(), path)
    return load_private_pem(path)


def unpad_rsa_pad(block: bytes) -> bytes | None:
    """Returns the 192 bytes of data and padding in a decrypted RSA_PAD block, or None when it is not one.

        block (256) = temp_key XOR SHA256(aes_encrypted) (32) + aes_encrypted (224)
        aes_encrypted = AES256_IGE(reversed data (192) + SHA256(temp_key + data) (32), temp_key, iv = 0)

    The hash is compared in constant time.

    *Spec: Creating an Authorization Key, "RSA_PAD(data, server_public_key)"*
    """
    aes_encrypted = block[32:]
    temp_key = bytes(a ^ b for a, b in zip(block[:32], sha256(aes_encrypted), strict=True))
    data_with_hash = ige_decrypt(aes_encrypted, temp_key, bytes(32))
    data = data_with_hash[:RSA_PAD_DATA_BYTES][::-1]
    if hmac.compare_digest(sha256(temp_key + data), data_with_hash[RSA_PAD_DATA_BYTES:]):
        return data
    return None


def unpad_old(block: bytes) -> tuple[bytes, bytes] | None:
    """Returns (SHA-1 of the data, data with padding) of the older block, or None when it cannot be one.

        block (256) = 0 (1) + SHA1(data) (20) + data + random bytes

    Only the parser of the data knows where it ends, so that the caller compares the hash, in constant time.

    *Spec: Creating an Authorization Key (the form before RSA_PAD)*
    """
    if block[0]:
        return None
    return block[1:OLD_HEADER_BYTES], block[OLD_HEADER_BYTES:]
