"""The RSA key's files, fingerprint and private operation, against the cryptography library."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import rsa as crypto_rsa
from telethon.crypto import rsa as telethon_rsa

from telesrv.mtproto import rsa
from telesrv.mtproto.errors import ExchangeError
from telesrv.mtproto.rsa import RSAKey

# A production key of the public network and the fingerprint that it is known by.
PUBLIC_PEM = b"""-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEAwVACPi9w23mF3tBkdZz+zwrzKOaaQdr01vAbU4E1pvkfj4sqDsm6
lyDONS789sVoD/xCS9Y0hkkC3gtL1tSfTlgCMOOul9lcixlEKzwKENj1Yz/s7daS
an9tqw3bfUV/nqgbhGX81v/+7RFAEd+RwFnK7a+XYl9sluzHRyVVaTTveB2GazTw
Efzk2DWgkBluml8OREmvfraX3bkHZJTKX4EQSjBbbdJ2ZXIsRrYOXfaA+xayEGB+
8hdlLmAjbCVfaigxX0CDqWeR1yFL9kwd9P0NsZRPsmoqVwMbMu7mStFai6aIhc3n
Slv8kg9qv1m6XHVQY3PnEw+QQtqSIXklHwIDAQAB
-----END RSA PUBLIC KEY-----
"""


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return rsa.generate_rsa_key()


def test_fingerprint_golden() -> None:
    n, e = rsa.load_public_pem(PUBLIC_PEM)
    assert rsa.public_fingerprint(n, e) % 2**64 == 0xC3B42B026CE86B21


def test_generated_key(key: RSAKey) -> None:
    assert (key.n.bit_length(), key.e) == (2048, 65537)
    assert -(2**63) <= key.fingerprint < 2**63
    assert rsa.has_portable_fingerprint(key.fingerprint)
    assert rsa.load_public_pem(key.public_pem()) == (key.n, key.e)
    assert key.public_pem().startswith(b"-----BEGIN RSA PUBLIC KEY-----\n")
    assert key.private_pem().startswith(b"-----BEGIN RSA PRIVATE KEY-----\n")
    assert str(key.d) not in repr(key)


def test_a_client_computes_the_same_fingerprint(key: RSAKey) -> None:
    telethon_rsa.add_key(key.public_pem().decode(), old=False)
    assert key.fingerprint in telethon_rsa._server_keys


@pytest.mark.parametrize(
    "unsigned", [0x0C11223344556677, 0x1122334405667788, 0x1122330455667788, 0x1122334455667708]
)
def test_fingerprints_with_leading_zeros_are_not_portable(unsigned: int) -> None:
    signed = int.from_bytes(unsigned.to_bytes(8, "little"), "little", signed=True)
    assert not rsa.has_portable_fingerprint(signed)


def test_private_operation_inverts_the_public_one(key: RSAKey) -> None:
    for message in (0, 1, 2, key.p, key.q, key.n - 1, int.from_bytes(os.urandom(255), "big")):
        encrypted = pow(message, key.e, key.n).to_bytes(256, "big")
        assert key.decrypt_raw(encrypted) == message.to_bytes(256, "big")


@pytest.mark.parametrize("size", [0, 255, 257])
def test_a_block_of_another_size_is_refused(key: RSAKey, size: int) -> None:
    with pytest.raises(ExchangeError):
        key.decrypt_raw(bytes(size))


def test_a_number_above_the_modulus_is_refused(key: RSAKey) -> None:
    for value in (key.n, 2**2048 - 1):
        with pytest.raises(ExchangeError):
            key.decrypt_raw(value.to_bytes(256, "big"))


def test_power_agrees_with_pow() -> None:
    modulus = 2**127 - 1
    assert all(
        rsa.power(b, e, modulus) == pow(b, e, modulus) for b in (0, 1, 3, modulus + 5) for e in (1, 2, 99)
    )


def test_files(tmp_path: Path, key: RSAKey) -> None:
    path = tmp_path / "keys" / "server.pem"
    rsa.save_private_pem(key, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert rsa.load_private_pem(path) == key
    assert os.listdir(path.parent) == ["server.pem"]
    with pytest.raises(FileExistsError):
        rsa.save_private_pem(rsa.generate_rsa_key(), path)
    assert rsa.load_or_generate_rsa_key(path) == key
    assert os.listdir(path.parent) == ["server.pem"]


def test_processes_that_start_together_share_one_key(tmp_path: Path) -> None:
    path = tmp_path / "server.pem"
    with ThreadPoolExecutor(4) as pool:
        keys = list(pool.map(lambda _: rsa.load_or_generate_rsa_key(path), range(4)))
    assert len({key.fingerprint for key in keys}) == 1


def test_other_keys_are_refused(tmp_path: Path) -> None:
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    small = crypto_rsa.generate_private_key(65537, 1024)
    curve = ec.generate_private_key(ec.SECP256R1())
    locked = serialization.BestAvailableEncryption(b"a password")
    public = small.public_key().public_bytes(pem, serialization.PublicFormat.PKCS1)
    for i, wrong in enumerate(
        (
            small.private_bytes(pem, private, plain),
            curve.private_bytes(pem, private, plain),
            crypto_rsa.generate_private_key(65537, 2048).private_bytes(pem, private, locked),
            public,
            b"no PEM at all",
            b"",
        )
    ):
        path = tmp_path / f"{i}.pem"
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"RSA .*2048"):
            rsa.load_private_pem(path)
    with pytest.raises(ValueError, match="2048"):
        rsa.load_public_pem(public)
