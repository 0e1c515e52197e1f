"""Work directories that make an unmodified Telegram Desktop talk to this server.

The client keeps, beside the addresses of its data centres, an RSA key for each of them that it prefers to
the keys compiled into it. Written before its first start they survive its updates of the configuration,
restarts and log-outs. It is started with ``-workdir PATH``; nothing in it is patched.

    PATH/tdata/key_datas                 salt, local key (encrypted), accounts (encrypted)
    PATH/tdata/D877F783D5D3EF8C/configs  data centres and their keys (encrypted with the local key)

The passcode is empty, as in every fresh installation: what is encrypted here is not protected by it. Written
are two small files, complete or not at all, ``key_datas`` last.

*Spec: Telegram Desktop's public source, storage/details and mtproto/mtproto_config*
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from telesrv.mtproto.crypto import AuthKey, derive_aes_v1, ige_encrypt, sha1
from telesrv.mtproto.rsa import load_public_pem

__all__ = ["WorkDirectoryExists", "write_work_directory"]

APP_VERSION: Final = 4_006_005  # the client reads files of its own version and of older ones
DATA_CENTRES: Final = range(1, 6)

_MAGIC: Final = b"TDF$"
_BLOCK: Final = 16
_SALT_BYTES: Final = 32
_KEY_BYTES: Final = 256
_PORTS: Final = range(1, 65536)

_FLAG_IPV6: Final = 1 << 0
_FLAG_TCPO_ONLY: Final = 1 << 2  # no HTTP beside TCP
_FLAG_STATIC: Final = 1 << 4

# What the client assumes before the server's own configuration arrives, in the order it stores them.
_LIMITS: Final = (
    200,  # chat_size_max
    200_000,  # megagroup_size_max
    100,  # forwarded_count_max
    120_000,  # online_update_period_ms
    5_000,  # offline_blur_timeout_ms
    30_000,  # offline_idle_timeout_ms
    1_000,  # online_focus_timeout_ms
    300_000,  # online_cloud_timeout_ms
    30_000,  # notify_cloud_delay_ms
    1_500,  # notify_default_delay_ms
    200,  # saved_gifs_limit
    172_800,  # edit_time_limit
    2_147_483_647,  # revoke_time_limit
    2_147_483_647,  # revoke_private_time_limit
    1,  # revoke_private_inbox
    30,  # stickers_recent_limit
    5,  # stickers_faved_limit
    5,  # pinned_dialogs_count_max
    100,  # pinned_dialogs_in_folder_max
)
_TIMEOUTS: Final = (
    7 * 86_400,  # channels_read_media_period
    20_000,  # call_receive_timeout_ms
    90_000,  # call_ring_timeout_ms
    30_000,  # call_connect_timeout_ms
    10_000,  # call_packet_timeout_ms
    4,  # webfile_dc_id
)
_LINK_PREFIX: Final = "https://t.me/"
_TXT_DOMAIN: Final = "apv3.stel.com"
_DEFAULT_REACTION: Final = "\N{THUMBS UP SIGN}"


class WorkDirectoryExists(Exception):
    """The directory belongs to a client that has been started or set up before."""


def write_work_directory(
    path: Path,
    host: str,
    port: int,
    public_key_pem: bytes,
    *,
    force: bool = False,
) -> None:
    """Makes ``path`` a work directory whose data centres 1-5 are this server with this key.

    With ``force`` an existing ``tdata`` is moved aside, to ``tdata.old-N``; it is never deleted, because it
    may hold someone's log-ins.

    Args:
        path: the directory given to the client as ``-workdir``; made when it does not exist.
        host: the server's IPv4 or IPv6 address, as the client will reach it.
        port: its TCP port.
        public_key_pem: the server's RSA public key.
        force: move aside what is there.

    Raises:
        WorkDirectoryExists: ``path`` has a ``tdata/key_datas`` and ``force`` is not set; nothing is changed.
        ValueError: host is not an IP address, port is out of range, or the PEM holds no 2048-bit RSA key.
        OSError: the files cannot be written.

    *Spec: Telegram Desktop's public source*
    """
    address = ipaddress.ip_address(host)
    if port not in _PORTS:
        raise ValueError(f"{port} is not a TCP port")
    n, e = load_public_pem(public_key_pem)
    data = path / "tdata"
    if (data / "key_datas").exists():
        if not force:
            raise WorkDirectoryExists(f"{data} is in use already")
        _move_aside(data)

    local_key = AuthKey(os.urandom(_KEY_BYTES))
    salt = os.urandom(_SALT_BYTES)
    account = data / _folder_name("data")
    account.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = _config(_dc_options(address, port, n, e))
    _write_file(account / "configs", [_encrypt(_byte_array(config), local_key)])
    accounts = _int32s(1, 0, 0)  # how many, the index of each, the active one
    _write_file(
        data / "key_datas",
        [
            salt,
            _encrypt(local_key.data, _key_without_passcode(salt)),
            _encrypt(accounts, local_key),
        ],
    )


def _move_aside(data: Path) -> None:
    number = 1
    while (old := data.with_name(f"{data.name}.old-{number}")).exists():
        number += 1
    data.rename(old)


def _folder_name(name: str) -> str:
    """Returns the client's name for a data folder: 8 bytes of MD5 in hexadecimal, low nibble first."""
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()[:8]
    return "".join(f"{byte & 15:X}{byte >> 4:X}" for byte in digest)


def _write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Writes a TDF file of mode 0600: magic, version (LE32), byte arrays, MD5 over them and their length."""
    body = b"".join(map(_byte_array, parts))
    version = struct.pack("<i", APP_VERSION)
    checksum = hashlib.md5(
        body + struct.pack("<i", len(body)) + version + _MAGIC, usedforsecurity=False
    ).digest()
    temporary = path.with_name(path.name + ".new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(_MAGIC + version + body + checksum)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _key_without_passcode(salt: bytes) -> AuthKey:
    """Returns the key that the client makes where no passcode is set."""
    seed = hashlib.sha512(salt + salt).digest()
    return AuthKey(hashlib.pbkdf2_hmac("sha512", seed, salt, 1, _KEY_BYTES))


def _encrypt(data: bytes, key: AuthKey) -> bytes:
    """Returns msg_key (16) and the ciphertext of length (LE32, itself counted), data and padding.

    The cipher is that of MTProto 1.0, as from a server, but msg_key covers the padding.
    """
    plain = struct.pack("<I", len(data) + 4) + data
    plain += os.urandom(-len(plain) % _BLOCK)
    msg_key = sha1(plain)[:16]
    return msg_key + ige_encrypt(plain, *derive_aes_v1(key, msg_key, from_server=True))


def _dc_options(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, n: int, e: int) -> bytes:
    """Returns the data centres and, behind them, an RSA key for each, by which they are recognised.

    The flag "cdn" must never be set on an option: the client would drop the keys.
    """
    flags = _FLAG_STATIC | _FLAG_TCPO_ONLY | (_FLAG_IPV6 if address.version == 6 else 0)
    ip = str(address).encode()
    options = b"".join(
        _int32s(dc_id, flags, port, len(ip)) + ip + _int32s(0)  # an empty proxy secret
        for dc_id in DATA_CENTRES
    )
    key = _byte_array(n.to_bytes(256, "big")) + _byte_array(e.to_bytes((e.bit_length() + 7) // 8, "big"))
    keys = b"".join(_int32s(dc_id) + key for dc_id in DATA_CENTRES)
    count = len(DATA_CENTRES)
    return _int32s(-2, count) + options + _int32s(count) + keys  # -2: the layout's version


def _config(dc_options: bytes) -> bytes:
    return b"".join(
        (
            _int32s(1, 0),  # the layout's version, the production environment
            _byte_array(dc_options),
            _int32s(*_LIMITS),
            _text(_LINK_PREFIX),
            _int32s(*_TIMEOUTS),
            _text(_TXT_DOMAIN),
            _int32s(1, 0, 1024),  # phone_calls_enabled, blocked_mode, caption_length_max
            _text(_DEFAULT_REACTION),
            struct.pack(">Q", 0),  # no custom emoji as the default reaction
        )
    )


def _int32s(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def _byte_array(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _text(text: str) -> bytes:
    return _byte_array(text.encode("utf-16-be"))
