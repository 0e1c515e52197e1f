"""A work directory read back by a reader of its own, which shares no code with the writer."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from pathlib import Path

import pytest
from telethon.crypto import AES  # a foreign cipher

from telesrv.admin import tdesktop
from telesrv.mtproto import rsa

PEM = b"""-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEAwVACPi9w23mF3tBkdZz+zwrzKOaaQdr01vAbU4E1pvkfj4sqDsm6
lyDONS789sVoD/xCS9Y0hkkC3gtL1tSfTlgCMOOul9lcixlEKzwKENj1Yz/s7daS
an9tqw3bfUV/nqgbhGX81v/+7RFAEd+RwFnK7a+XYl9sluzHRyVVaTTveB2GazTw
Efzk2DWgkBluml8OREmvfraX3bkHZJTKX4EQSjBbbdJ2ZXIsRrYOXfaA+xayEGB+
8hdlLmAjbCVfaigxX0CDqWeR1yFL9kwd9P0NsZRPsmoqVwMbMu7mStFai6aIhc3n
Slv8kg9qv1m6XHVQY3PnEw+QQtqSIXklHwIDAQAB
-----END RSA PUBLIC KEY-----
"""


class Stream:
    """A reader of Qt's QDataStream."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        assert len(self.data) >= count
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def array(self) -> bytes:
        return self.take(self.int32())

    def text(self) -> str:
        return self.array().decode("utf-16-be")


def read_file(path: Path) -> Stream:
    data = path.read_bytes()
    magic, version, body, checksum = data[:4], data[4:8], data[8:-16], data[-16:]
    assert magic == b"TDF$"
    assert int.from_bytes(version, "little") <= 4_006_005
    size = len(body).to_bytes(4, "little")
    assert hashlib.md5(body + size + version + magic, usedforsecurity=False).digest() == checksum
    return Stream(body)


def decrypt(data: bytes, key: bytes) -> bytes:
    """The local cipher as its description gives it: four SHA-1 over parts of the key from byte 8 on."""

    def h(*parts: bytes) -> bytes:
        return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()

    msg_key, encrypted = data[:16], data[16:]
    a = h(msg_key, key[8:40])
    b = h(key[40:56], msg_key, key[56:72])
    c = h(key[72:104], msg_key)
    d = h(msg_key, key[104:136])
    aes_key = a[0:8] + b[8:20] + c[4:16]
    aes_iv = a[8:20] + b[0:8] + c[16:20] + d[0:8]
    plain: bytes = AES.decrypt_ige(encrypted, aes_key, aes_iv)
    assert h(plain)[:16] == msg_key
    (size,) = struct.unpack_from("<I", plain)
    assert 0 <= len(plain) - size < 16
    return plain[4:size]


def read_local_key(tdata: Path) -> bytes:
    keys = read_file(tdata / "key_datas")
    salt, encrypted_key, encrypted_accounts = keys.array(), keys.array(), keys.array()
    assert not keys.data
    passcode_key = hashlib.pbkdf2_hmac("sha512", hashlib.sha512(salt + salt).digest(), salt, 1, 256)
    local_key = decrypt(encrypted_key, passcode_key)
    assert len(local_key) == 256
    assert decrypt(encrypted_accounts, local_key) == bytes.fromhex("000000010000000000000000")
    return local_key


@pytest.mark.parametrize(("host", "flags"), [("127.0.0.1", 20), ("2001:db8::7", 21)])
def test_the_client_finds_servers_and_keys(tmp_path: Path, host: str, flags: int) -> None:
    tdesktop.write_work_directory(tmp_path / "work", host, 10443, PEM)
    tdata = tmp_path / "work" / "tdata"
    local_key = read_local_key(tdata)
    file = read_file(tdata / "D877F783D5D3EF8C" / "configs")
    config = Stream(Stream(decrypt(file.array(), local_key)).array())
    assert not file.data
    assert (config.int32(), config.int32()) == (1, 0)

    options = Stream(config.array())
    assert options.int32() == -2
    assert options.int32() == 5
    for dc_id in range(1, 6):
        assert [options.int32() for _ in range(3)] == [dc_id, flags, 10443]
        assert options.array() == host.encode()
        assert options.array() == b""
    assert options.int32() == 5
    for dc_id in range(1, 6):
        assert options.int32() == dc_id
        n, e = (int.from_bytes(options.array(), "big") for _ in range(2))
        assert (n, e) == rsa.load_public_pem(PEM)
    assert not options.data

    assert config.int32() == 200
    for _ in range(18):
        config.int32()
    assert config.text().startswith("https://")
    for _ in range(6):
        config.int32()
    config.text()
    assert [config.int32() for _ in range(3)] == [1, 0, 1024]
    assert config.text() == "\U0001f44d"
    assert config.take(8) == bytes(8)
    assert not config.data


def test_files_are_the_owners_only(tmp_path: Path) -> None:
    tdesktop.write_work_directory(tmp_path, "127.0.0.1", 1, PEM)
    names = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert names == ["tdata/D877F783D5D3EF8C/configs", "tdata/key_datas"]
    assert all(stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600 for name in names)


def test_two_directories_share_no_secret(tmp_path: Path) -> None:
    for name in "ab":
        tdesktop.write_work_directory(tmp_path / name, "127.0.0.1", 1, PEM)
    assert read_local_key(tmp_path / "a" / "tdata") != read_local_key(tmp_path / "b" / "tdata")


def test_a_used_directory_is_left_alone(tmp_path: Path) -> None:
    tdesktop.write_work_directory(tmp_path, "127.0.0.1", 1, PEM)
    before = (tmp_path / "tdata" / "key_datas").read_bytes()
    with pytest.raises(tdesktop.WorkDirectoryExists):
        tdesktop.write_work_directory(tmp_path, "127.0.0.1", 2, PEM)
    assert (tmp_path / "tdata" / "key_datas").read_bytes() == before


def test_force_moves_the_old_data_aside(tmp_path: Path) -> None:
    old = []
    for _ in range(3):
        tdesktop.write_work_directory(tmp_path, "127.0.0.1", 1, PEM, force=True)
        old.append((tmp_path / "tdata" / "key_datas").read_bytes())
    assert sorted(os.listdir(tmp_path)) == ["tdata", "tdata.old-1", "tdata.old-2"]
    assert [(tmp_path / f"tdata.old-{i}" / "key_datas").read_bytes() for i in (1, 2)] == old[:2]
    read_local_key(tmp_path / "tdata")


@pytest.mark.parametrize(
    ("host", "port", "pem"),
    [("chat.example.org", 1, PEM), ("127.0.0.1", 0, PEM), ("127.0.0.1", 65536, PEM), ("127.0.0.1", 1, b"no")],
)
def test_wrong_arguments_write_nothing(tmp_path: Path, host: str, port: int, pem: bytes) -> None:
    with pytest.raises(ValueError):
        tdesktop.write_work_directory(tmp_path, host, port, pem)
    assert os.listdir(tmp_path) == []
