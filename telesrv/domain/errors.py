"""What the rules of chats refuse. The RPC layer gives each its public error name."""

from __future__ import annotations


class DomainError(Exception):
    """A request that a rule refuses; nothing was written."""


class Unavailable(Exception):
    """PostgreSQL or Redis did not answer in time; the request may be repeated."""


class RandomIdConflict(DomainError):
    """The random_id was used for another message."""


class PeerInvalid(DomainError):
    """There is no such peer."""


class PeerBlocked(DomainError):
    """The sender has blocked the other side."""


class ReplyInvalid(DomainError):
    """The message replied to is not in this chat."""


class MessageInvalid(DomainError):
    """There is no such message in this chat."""


class MessageNotModified(DomainError):
    """The message is as the edit would make it."""


class NotTheAuthor(DomainError):
    """Only who wrote a message may edit it."""


class EditTimeExpired(DomainError):
    """The message is too old to be edited."""


class EditForbidden(DomainError):
    """The other side has blocked the author, so that the edit would not reach it."""


class DeleteForbidden(DomainError):
    """The other side has blocked the caller, who may delete the own copies only."""


class NotModified(DomainError):
    """Everything is as the request would make it."""


class PhoneOccupied(DomainError):
    """The phone number has an account."""


class UsernameOccupied(DomainError):
    """The username is somebody else's."""


class UsernameNotModified(DomainError):
    """The username is already this."""


class CodeInvalid(DomainError):
    """The login code is wrong."""


class CodeExpired(DomainError):
    """The login code ran out, was used up by wrong tries, or was never sent."""


class DialogMissing(DomainError):
    """The owner has no such chat."""


class TooManyPinned(DomainError):
    """More chats pinned than a folder may have."""


class TooManyFilters(DomainError):
    """More dialog filters than an account may have."""


class FloodWait(DomainError):
    """Too many requests of this kind."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"wait {wait_s} s")
        self.wait_s = wait_s
