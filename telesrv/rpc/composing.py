"""What a client composes, as it is stored: texts, quotes and replies; and what it cannot have here.

Sending, editing, forwarding and drafts take their requests apart by these.

*Spec: Styled text with message entities; Message replies; messages.sendMessage*
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from telesrv.domain.entities import EntitiesTooLong, EntityBoundsInvalid
from telesrv.domain.text import (
    MAX_QUOTE_CODE_POINTS,
    MAX_QUOTE_OFFSET,
    FormattedText,
    TextEmpty,
    TextTooLong,
    clean_text,
)
from telesrv.rpc.convert.entities import entities_from_tl
from telesrv.rpc.convert.peers import peer_of, user_of
from telesrv.rpc.errors import FORBIDDEN, RpcError, bad_request
from telesrv.tl import types

if TYPE_CHECKING:
    from telesrv.domain.messages import Entity
    from telesrv.domain.peers import Peer
    from telesrv.rpc.context import Context
    from telesrv.tl import TLFunction

RATE_PERIOD_S: Final = 60

_UNSUPPORTED: Final = {
    "reply_markup": "REPLY_MARKUP_INVALID",
    "quick_reply_shortcut": "SHORTCUT_INVALID",
    "quick_reply_shortcut_id": "SHORTCUT_INVALID",
    "effect": "EFFECT_ID_INVALID",
    "allow_paid_stars": "PAYMENT_UNSUPPORTED",
    "suggested_post": "SUGGESTED_POST_PEER_INVALID",
    "rich_message": "MEDIA_INVALID",
    "from_ephemeral": "MESSAGE_ID_INVALID",
}
"""Fields of requests that ask for what is not here, and the error that each is refused by."""


def refuse_unsupported(request: TLFunction) -> None:
    """Names what a request asks for and this server does not have, instead of leaving it out in silence.

    Raises:
        RpcError: 400 by the name of what is not here; 403 PREMIUM_ACCOUNT_REQUIRED for a message that is to
            be sent again and again: no account has what that takes.

    *Spec: messages.sendMessage*
    """
    for field, error in _UNSUPPORTED.items():
        if getattr(request, field, None):
            raise bad_request(error)
    if getattr(request, "schedule_repeat_period", None):
        raise RpcError(FORBIDDEN, "PREMIUM_ACCOUNT_REQUIRED")
    if not isinstance(getattr(request, "send_as", None), types.InputPeerSelf | types.InputPeerEmpty | None):
        raise bad_request("SEND_AS_PEER_INVALID")


async def count(ctx: Context, kind: str) -> None:
    """Counts one send or edit of the caller's; each *kind* has the limit of its own that is configured.

    Raises:
        FloodWait: too many in a minute.
    """
    await ctx.store.limits.hit(kind, ctx.user_id, ctx.store.config.message_rate_limit, RATE_PERIOD_S)


async def peer_error(ctx: Context, peer: Peer) -> RpcError:
    """Returns why nobody can write to an account that the caller may name: it is deleted, or never was."""
    user = await ctx.store.users.get(peer.id)
    return bad_request("PEER_ID_INVALID" if user is None else "INPUT_USER_DEACTIVATED")


def message_text(
    ctx: Context, text: str, entities: Iterable[types.TypeMessageEntity] | None
) -> FormattedText:
    """Returns the text of a message.

    Raises:
        RpcError: 400 MESSAGE_EMPTY, MESSAGE_TOO_LONG, ENTITY_BOUNDS_INVALID.
        EntitiesTooLong: as `clean_text`.

    *Spec: Styled text with message entities*
    """
    with text_errors():
        return clean_text(text, _entities(ctx, entities))


def draft_text(ctx: Context, text: str, entities: Iterable[types.TypeMessageEntity] | None) -> FormattedText:
    """Returns a text that is not finished, blanks and all; it may be empty.

    Raises:
        RpcError: 400 MESSAGE_TOO_LONG, ENTITY_BOUNDS_INVALID.
        EntitiesTooLong: as `clean_text`.

    *Spec: Message drafts*
    """
    with text_errors(), suppress(TextEmpty):
        return clean_text(text, _entities(ctx, entities), as_typed=True)
    return FormattedText("")


@contextmanager
def text_errors() -> Iterator[None]:
    """Names what is wrong with a text that is taken apart in the block.

    Raises:
        RpcError: 400 MESSAGE_EMPTY, MESSAGE_TOO_LONG, ENTITY_BOUNDS_INVALID.
    """
    try:
        yield
    except TextEmpty:
        raise bad_request("MESSAGE_EMPTY") from None
    except TextTooLong:
        raise bad_request("MESSAGE_TOO_LONG") from None
    except EntityBoundsInvalid:
        raise bad_request("ENTITY_BOUNDS_INVALID") from None


def replied_to(
    ctx: Context, reply: types.TypeInputReplyTo | None, peer: Peer
) -> types.InputReplyToMessage | None:
    """Returns what is answered in the chat with *peer*, None for nothing. Whether it is there is not asked.

    Raises:
        RpcError: 400 STORY_ID_INVALID, REPLY_TO_MONOFORUM_PEER_INVALID, REPLY_MESSAGE_ID_INVALID.

    *Spec: Message replies*
    """
    if reply is None:
        return None
    if isinstance(reply, types.InputReplyToStory):
        raise bad_request("STORY_ID_INVALID")
    if isinstance(reply, types.InputReplyToMonoForum):
        raise bad_request("REPLY_TO_MONOFORUM_PEER_INVALID")
    if not isinstance(reply, types.InputReplyToMessage):
        raise bad_request("REPLY_MESSAGE_ID_INVALID")
    if reply.monoforum_peer_id is not None:
        raise bad_request("REPLY_TO_MONOFORUM_PEER_INVALID")
    elsewhere = reply.reply_to_peer_id
    if elsewhere is not None and peer_of(elsewhere, ctx.user_id, ctx.secret) != peer:
        raise bad_request("REPLY_MESSAGE_ID_INVALID")
    if reply.reply_to_msg_id < 0:
        raise bad_request("REPLY_MESSAGE_ID_INVALID")
    return reply if reply.reply_to_msg_id else None


def maybe_quote(
    ctx: Context, reply: types.InputReplyToMessage, *, as_typed: bool = False
) -> FormattedText | None:
    """Returns what a reply quotes; None when it quotes nothing.

    Args:
        as_typed: the reply is not finished: a quote in which nothing can be seen is none.

    Raises:
        RpcError: 400 QUOTE_TEXT_INVALID.

    *Spec: Message replies*
    """
    if not reply.quote_text:
        return None
    if not 0 <= (reply.quote_offset or 0) <= MAX_QUOTE_OFFSET:
        raise bad_request("QUOTE_TEXT_INVALID")
    entities = _entities(ctx, reply.quote_entities)
    try:
        return clean_text(reply.quote_text, entities, limit=MAX_QUOTE_CODE_POINTS, as_typed=as_typed)
    except TextEmpty:
        if as_typed:
            return None
        raise bad_request("QUOTE_TEXT_INVALID") from None
    except (TextTooLong, EntityBoundsInvalid, EntitiesTooLong):
        raise bad_request("QUOTE_TEXT_INVALID") from None


def _entities(ctx: Context, entities: Iterable[types.TypeMessageEntity] | None) -> list[Entity]:
    def maybe_user(user: types.TypeInputUser) -> int | None:
        try:
            return user_of(user, ctx.user_id, ctx.secret)
        except RpcError:
            return None

    return entities_from_tl(entities, maybe_user)
