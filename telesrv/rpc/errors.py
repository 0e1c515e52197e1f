"""What a client is told when a call is refused: an ``RpcError`` with a code and a type of the public list.

Only this family reaches clients. A domain error has one public name wherever it comes up; anything that is
neither is a bug and becomes a bare 500 in the dispatcher.

*Spec: Error handling*
"""

from __future__ import annotations

from typing import Final

from telesrv.domain import errors as domain
from telesrv.domain.entities import EntitiesTooLong
from telesrv.domain.scheduled import ScheduleTooMuch, StatusPrivate
from telesrv.domain.ttl import PeriodInvalid

BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
FLOOD: Final = 420
INTERNAL: Final = 500


class RpcError(Exception):
    """A call is refused, for a reason that its client understands.

    Args:
        code: like an HTTP status. Clients repeat a call after 500 and log out after 401, so neither is used
            for anything else.
        type: the upper-case name, e.g. ``PEER_ID_INVALID``.

    *Spec: Error handling*
    """

    def __init__(self, code: int, type: str) -> None:
        super().__init__(f"{code} {type}")
        self.code = code
        self.type = type


def bad_request(type: str) -> RpcError:
    """Returns the 400 of this type: the call itself is wrong and is not to be repeated."""
    return RpcError(BAD_REQUEST, type)


def unauthorized(type: str = "AUTH_KEY_UNREGISTERED") -> RpcError:
    """Returns the 401 of this type: this key is not logged in. Never for an outage."""
    return RpcError(UNAUTHORIZED, type)


_NAMES: Final[dict[type[domain.DomainError], str]] = {
    domain.RandomIdConflict: "RANDOM_ID_DUPLICATE",
    domain.PeerInvalid: "PEER_ID_INVALID",
    domain.PeerBlocked: "YOU_BLOCKED_USER",
    domain.ReplyInvalid: "REPLY_MESSAGE_ID_INVALID",
    domain.MessageInvalid: "MESSAGE_ID_INVALID",
    domain.MessageNotModified: "MESSAGE_NOT_MODIFIED",
    domain.EditTimeExpired: "MESSAGE_EDIT_TIME_EXPIRED",
    domain.NotModified: "CHAT_NOT_MODIFIED",
    EntitiesTooLong: "ENTITIES_TOO_LONG",
    PeriodInvalid: "TTL_PERIOD_INVALID",
    ScheduleTooMuch: "SCHEDULE_TOO_MUCH",
    StatusPrivate: "SCHEDULE_STATUS_PRIVATE",
    domain.PhoneOccupied: "PHONE_NUMBER_OCCUPIED",
    domain.UsernameOccupied: "USERNAME_OCCUPIED",
    domain.UsernameNotModified: "USERNAME_NOT_MODIFIED",
    domain.CodeInvalid: "PHONE_CODE_INVALID",
    domain.CodeExpired: "PHONE_CODE_EXPIRED",
    domain.DialogMissing: "PEER_ID_INVALID",
    domain.TooManyPinned: "PINNED_DIALOGS_TOO_MUCH",
    domain.TooManyFilters: "DIALOG_FILTERS_TOO_MUCH",
}


_FORBIDDEN: Final[dict[type[domain.DomainError], str]] = {
    domain.NotTheAuthor: "MESSAGE_AUTHOR_REQUIRED",
    domain.EditForbidden: "EDIT_MESSAGES_FORBIDDEN",
    domain.DeleteForbidden: "DELETE_MESSAGES_FORBIDDEN",
}
"""Those that are a matter of rights."""


def of_domain(error: domain.DomainError) -> RpcError | None:
    """Returns the public name of a domain error, or None when it has none: then its raising is a bug."""
    if isinstance(error, domain.FloodWait):
        return RpcError(FLOOD, f"FLOOD_WAIT_{max(error.wait_s, 1)}")
    for kind in type(error).__mro__:
        if kind in _NAMES:
            return bad_request(_NAMES[kind])
        if kind in _FORBIDDEN:
            return RpcError(FORBIDDEN, _FORBIDDEN[kind])
    return None


UNAVAILABLE: Final = RpcError(INTERNAL, "WORKER_BUSY_TOO_LONG_RETRY")
"""PostgreSQL or Redis is away. A 500: clients repeat the call, and nobody is logged out."""

BUG: Final = RpcError(INTERNAL, "INTERNAL")
"""The traceback is in the log; it tells the client nothing of what is inside."""
