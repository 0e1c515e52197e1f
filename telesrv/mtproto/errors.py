"""What a peer can do wrong in MTProto below the TL: every error here is a ``ProtocolError``.

The gateway decides by class alone: a ``TransportError`` carries the code that is sent to the peer before
the connection closes; every other class closes the connection without an answer, because an answer to
a packet that could not be verified would tell an attacker something.

*Spec: MTProto transports; Security Guidelines for Client Developers*
"""

from __future__ import annotations

from telesrv.tl.errors import ProtocolError

__all__ = [
    "AUTH_KEY_NOT_FOUND",
    "BindError",
    "DecryptionError",
    "ExchangeError",
    "FrameError",
    "ProtocolError",
    "RefusedTransport",
    "TransportError",
]

AUTH_KEY_NOT_FOUND = 404


class TransportError(ProtocolError):
    """A condition the peer is told of as a bare 4-byte transport error: ``-code``, then the end.

    Args:
        code: the positive code, such as `AUTH_KEY_NOT_FOUND`.

    *Spec: MTProto transports, "Transport errors"*
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"transport error -{code}")
        self.code = code


class FrameError(ProtocolError):
    """The byte stream is not a valid frame of the transport it began as; the stream is lost for good."""


class RefusedTransport(FrameError):
    """The first bytes belong to a protocol that is not spoken here (HTTP, TLS), or fail the proxy secret."""


class DecryptionError(ProtocolError):
    """An encrypted message failed a length, key or msg_key check; it is never answered."""


class ExchangeError(ProtocolError):
    """A key exchange broke a check of the security guidelines; it is never answered."""


class BindError(ProtocolError):
    """A bind_auth_key_inner does not prove possession of the permanent key.

    The RPC layer answers ``400 ENCRYPTED_MESSAGE_INVALID``.
    """
