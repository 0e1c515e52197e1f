"""Tokens that carry a login from one key of a device to another.

    expires (8, LE) | nonce (16) | HMAC-SHA256 over the purpose, the user_id and both (32)

Nothing is stored when one is made; that it works once is kept in Redis until it would have expired.

*Spec: auth.exportAuthorization*
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from telesrv.domain.errors import FloodWait

if TYPE_CHECKING:
    from telesrv.store import Store

LIFETIME_S: Final = 120
_HEAD: Final = 24


def seal(secret: bytes, user_id: int, now: int, nonce: bytes) -> bytes:
    """Returns a token for *user_id* that is good until *now* + 120 s; *nonce* is 16 random bytes."""
    head = (now + LIFETIME_S).to_bytes(8, "little") + nonce
    return head + _mac(secret, user_id, head)


def is_valid(secret: bytes, user_id: int, now: int, token: bytes) -> bool:
    """Tells whether the token was made here for *user_id* and is not too old; the MAC in constant time."""
    head, mac = token[:_HEAD], token[_HEAD:]
    if len(head) != _HEAD or not hmac.compare_digest(mac, _mac(secret, user_id, head)):
        return False
    return int.from_bytes(head[:8], "little") > now


async def use_up(store: Store, token: bytes) -> bool:
    """Returns True for exactly one caller with this token."""
    try:
        await store.limits.hit("auth:import", hashlib.sha256(token).hexdigest(), 1, 2 * LIFETIME_S)
    except FloodWait:
        return False
    return True


def _mac(secret: bytes, user_id: int, head: bytes) -> bytes:
    return hmac.digest(secret, b"exported_authorization:%d:" % user_id + head, hashlib.sha256)
