"""The proof that the holder of a temporary key also holds the permanent one.

*Spec: Perfect Forward Secrecy; auth.bindTempAuthKey*
"""

from __future__ import annotations

import hmac
import struct
from typing import Final

from telesrv import tl
from telesrv.mtproto.crypto import AuthKey, bare_msg_key_v1, decrypt_message_v1
from telesrv.mtproto.errors import BindError, ProtocolError
from telesrv.tl import mt

__all__ = ["verify_bind_temp_auth_key"]

_RANDOM_BYTES: Final = 16
_INNER_BYTES: Final = 40
_UNPADDED_BYTES: Final = 72
_PADDED_BYTES: Final = 80


def verify_bind_temp_auth_key(
    perm_key: AuthKey,
    temp_auth_key_id: int,
    temp_session_id: int,
    msg_id: int,
    nonce: int,
    expires_at: int,
    encrypted_message: bytes,
) -> None:
    """Returns only when ``encrypted_message`` binds exactly this temporary key and session to ``perm_key``.

        encrypted_message = perm_auth_key_id (8), msg_key (16), by MTProto 1.0, client to server:
        random (16), msg_id (8), seq_no = 0 (4), length = 40 (4), bind_auth_key_inner (40), padding (8)

    Whether ``expires_at`` lies ahead, and not beyond the key's own end, is the caller's to check.

    Args:
        perm_key: the key that auth.bindTempAuthKey names by perm_auth_key_id.
        temp_auth_key_id: the id of the key that encrypted the request itself, signed.
        temp_session_id: the session the request came in, signed.
        msg_id: the msg_id of the request.
        nonce: the request's nonce, signed.
        expires_at: the request's expires_at.
        encrypted_message: the request's encrypted_message.

    Raises:
        BindError: any of it does not match; the msg_key is compared in constant time.

    *Spec: auth.bindTempAuthKey*
    """
    if len(encrypted_message) != 24 + _PADDED_BYTES:
        raise BindError(f"an encrypted_message of {len(encrypted_message)} bytes")
    try:
        msg_key, padded = decrypt_message_v1(perm_key, encrypted_message, from_server=False)
        plain = padded[:_UNPADDED_BYTES]
        if not hmac.compare_digest(bare_msg_key_v1(plain), msg_key):
            raise BindError("msg_key does not match")
        inner = tl.read(plain[_RANDOM_BYTES + 16 :])
    except BindError:
        raise
    except ProtocolError as error:
        raise BindError(f"not a bind_auth_key_inner: {error}") from error
    inner_msg_id, seq_no, size = struct.unpack_from("<qii", plain, _RANDOM_BYTES)
    if not isinstance(inner, mt.BindAuthKeyInner) or size != _INNER_BYTES or seq_no != 0:
        raise BindError("not a bind_auth_key_inner")
    bound = (
        inner_msg_id,
        inner.nonce,
        inner.temp_auth_key_id,
        inner.perm_auth_key_id,
        inner.temp_session_id,
        inner.expires_at,
    )
    if bound != (msg_id, nonce, temp_auth_key_id, perm_key.id, temp_session_id, expires_at):
        raise BindError("bind_auth_key_inner is about another key, session or request")
