"""Write the work directory of a stock Telegram Desktop so that it talks to our server with our RSA key.

The client looks for a data centre's key among the "CDN" keys stored beside the endpoints first, so a `tdata`
that was written beforehand needs no change of the client. A file of it:

    "TDF$" | version, LE32 | parts: BE32 size and bytes each | MD5 of (parts, size of all, version, magic)

The settings file is encrypted with a local key, which is encrypted with a key made from the (empty) passcode.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from telesrv.mtproto.crypto import ige_encrypt

VERSION = 4006005
"""Written by 4.6.5 and read by every later version."""

STATIC = 16
TCP_ONLY = 4
MAGIC = b"TDF$"


def write(workdir: Path, host: str, port: int, public_key: Path) -> None:
    """Have `workdir/tdata` name `host:port` as data centres 1 to 5, with the RSA key of the PEM file."""
    key = load_pem_public_key(public_key.read_bytes())
    assert isinstance(key, RSAPublicKey)
    numbers = key.public_numbers()
    modulus = numbers.n.to_bytes(256, "big")
    exponent = numbers.e.to_bytes(3, "big")
    salt = os.urandom(32)
    local_key = os.urandom(256)
    tdata = workdir / "tdata"
    account = tdata / account_folder("data")
    account.mkdir(parents=True)
    one_account = _int(1) + _int(0) + _int(0)  # count, its index, the active one
    _write_file(
        tdata / "key_datas",
        salt,
        _encrypt(local_key, _passcode_key(b"", salt)),
        _encrypt(one_account, local_key),
    )
    config = _config(_dc_options(host, port, modulus, exponent))
    _write_file(account / "configs", _encrypt(_bytes(config), local_key))


def account_folder(name: str) -> str:
    """The directory of an account: the first 8 bytes of the name's MD5 in hex, nibbles swapped."""
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()[:8]
    return "".join(f"{byte & 15:X}{byte >> 4:X}" for byte in digest)


def _dc_options(host: str, port: int, modulus: bytes, exponent: bytes) -> bytes:
    options = _int(-2) + _int(5)
    for dc_id in range(1, 6):
        address = host.encode()
        options += _int(dc_id) + _int(STATIC | TCP_ONLY) + _int(port) + _int(len(address)) + address + _int(0)
    options += _int(5)
    for dc_id in range(1, 6):
        options += _int(dc_id) + _bytes(modulus) + _bytes(exponent)
    return options


def _config(dc_options: bytes) -> bytes:
    """The serialized settings of the connection; all but the options are the client's own defaults."""
    never = 2**31 - 1
    limits = (
        200,
        200_000,
        100,
        120_000,
        5_000,
        30_000,
        1_000,
        300_000,
        30_000,
        1_500,
        200,
        172_800,
        never,
        never,
    )
    return b"".join(
        (
            *(_int(1), _int(0), _bytes(dc_options)),
            *(_int(value) for value in limits),
            *(_int(value) for value in (1, 30, 5, 5, 100)),
            _string("https://t.me/"),
            *(_int(value) for value in (7 * 86_400, 20_000, 90_000, 30_000, 10_000, 4)),
            _string("apv3.stel.com"),
            *(_int(value) for value in (1, 0, 1_024)),
            _string("\N{THUMBS UP SIGN}"),
            struct.pack(">Q", 0),
        )
    )


def _int(value: int) -> bytes:
    return struct.pack(">i", value)


def _bytes(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def _string(value: str) -> bytes:
    return _bytes(value.encode("utf-16-be"))


def _passcode_key(passcode: bytes, salt: bytes) -> bytes:
    password = hashlib.sha512(salt + passcode + salt).digest()
    return hashlib.pbkdf2_hmac("sha512", password, salt, 100_000 if passcode else 1, 256)


def _encrypt(data: bytes, key: bytes) -> bytes:
    """16 bytes of the plain text's SHA-1, then AES-IGE of (LE32 length with itself, data, padding), x = 8."""
    plain = struct.pack("<I", len(data) + 4) + data
    plain += os.urandom(-len(plain) % 16)
    message_key = _sha1(plain)[:16]
    a = _sha1(message_key + key[8:40])
    b = _sha1(key[40:56] + message_key + key[56:72])
    c = _sha1(key[72:104] + message_key)
    d = _sha1(message_key + key[104:136])
    aes_key = a[:8] + b[8:20] + c[4:16]
    aes_iv = a[8:20] + b[:8] + c[16:20] + d[:8]
    return message_key + ige_encrypt(plain, aes_key, aes_iv)


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _write_file(path: Path, *parts: bytes) -> None:
    body = b"".join(_bytes(part) for part in parts)
    version = struct.pack("<i", VERSION)
    checksum = hashlib.md5(
        body + struct.pack("<i", len(body)) + version + MAGIC, usedforsecurity=False
    ).digest()
    path.write_bytes(MAGIC + version + body + checksum)
