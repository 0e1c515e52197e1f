"""The half of MTProto 1.0 that only a client has."""

from __future__ import annotations

from telesrv.mtproto.crypto import AuthKey, bare_msg_key_v1, derive_aes_v1, ige_encrypt


def encrypt_message_v1(auth_key: AuthKey, plaintext: bytes, *, from_server: bool, padding: bytes) -> bytes:
    """Returns auth_key_id (8), msg_key (16) and the ciphertext; plaintext and padding are whole blocks.

    *Spec: MTProto 1.0 description; Perfect Forward Secrecy*
    """
    msg_key = bare_msg_key_v1(plaintext)
    key, iv = derive_aes_v1(auth_key, msg_key, from_server=from_server)
    return auth_key.id_bytes + msg_key + ige_encrypt(plaintext + padding, key, iv)
