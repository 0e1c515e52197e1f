"""Styled ranges between TL and the domain.

*Spec: Styled text with message entities*
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from telesrv.domain.entities import BLOCKQUOTE, KINDS
from telesrv.domain.messages import Entity
from telesrv.tl import types

_PREFIX: Final = "messageEntity"

_ARGUMENTS: Final = {"textUrl": "url", "mentionName": "user_id", "pre": "language", BLOCKQUOTE: "collapsed"}
"""The one field that some kinds have besides their range."""

_PLAIN: Final[dict[str, Callable[..., types.TypeMessageEntity]]] = {
    "bankCard": types.MessageEntityBankCard,
    "bold": types.MessageEntityBold,
    "botCommand": types.MessageEntityBotCommand,
    "cashtag": types.MessageEntityCashtag,
    "code": types.MessageEntityCode,
    "email": types.MessageEntityEmail,
    "hashtag": types.MessageEntityHashtag,
    "italic": types.MessageEntityItalic,
    "mention": types.MessageEntityMention,
    "phone": types.MessageEntityPhone,
    "spoiler": types.MessageEntitySpoiler,
    "strike": types.MessageEntityStrike,
    "underline": types.MessageEntityUnderline,
    "url": types.MessageEntityUrl,
}

MAX_ARGUMENT_CODE_POINTS: Final = 2048
"""Of a link or a language; a range with a longer one is dropped."""


def entities_to_tl(entities: Sequence[Entity]) -> list[types.TypeMessageEntity] | None:
    """Returns the entities as TL has them, None for no entity: the field is then left out.

    *Spec: Styled text with message entities*
    """
    if not entities:
        return None
    return [_to_tl(entity) for entity in entities]


def _to_tl(entity: Entity) -> types.TypeMessageEntity:
    offset, length, argument = entity.offset, entity.length, entity.argument
    match entity.kind:
        case "textUrl":
            return types.MessageEntityTextUrl(offset=offset, length=length, url=str(argument or ""))
        case "mentionName":
            return types.MessageEntityMentionName(offset=offset, length=length, user_id=int(argument or 0))
        case "pre":
            return types.MessageEntityPre(offset=offset, length=length, language=str(argument or ""))
        case "blockquote":
            return types.MessageEntityBlockquote(offset=offset, length=length, collapsed=bool(argument))
        case kind:
            return _PLAIN.get(kind, types.MessageEntityUnknown)(offset=offset, length=length)


def entities_from_tl(
    entities: Iterable[types.TypeMessageEntity] | None,
    maybe_user: Callable[[types.TypeInputUser], int | None],
) -> list[Entity]:
    """Returns what is kept of a client's entities: unknown kinds and unusable arguments are left out.

    Ranges are taken as they are, whether they fit the text or not.

    Args:
        entities: of sendMessage or of a quote.
        maybe_user: returns the user_id that an InputUser of the caller names, None for none.

    *Spec: Styled text with message entities*
    """
    kept = (_from_tl(entity, maybe_user) for entity in entities or ())
    return [entity for entity in kept if entity is not None]


def _from_tl(entity: Any, maybe_user: Callable[[types.TypeInputUser], int | None]) -> Entity | None:
    if isinstance(entity, types.InputMessageEntityMentionName):
        user_id = maybe_user(entity.user_id)
        return None if user_id is None else Entity("mentionName", entity.offset, entity.length, user_id)
    name: str = entity.CONSTRUCTOR_NAME
    if not name.startswith(_PREFIX):
        return None
    kind = name[len(_PREFIX) : len(_PREFIX) + 1].lower() + name[len(_PREFIX) + 1 :]
    if kind not in KINDS or kind == "mentionName":
        return None
    argument = getattr(entity, _ARGUMENTS[kind]) if kind in _ARGUMENTS else None
    if isinstance(argument, str):
        argument = argument.strip()
        if len(argument) > MAX_ARGUMENT_CODE_POINTS or not argument.isprintable():
            return None
    if kind == BLOCKQUOTE:
        argument = 1 if argument else None
    if kind == "textUrl" and not argument:
        return None
    return Entity(kind, entity.offset, entity.length, argument)


def mentioned_user_ids(entities: Iterable[Entity]) -> Iterable[int]:
    """Returns the accounts that the entities name: an answer that shows them carries these users."""
    return (
        entity.argument
        for entity in entities
        if entity.kind == "mentionName" and isinstance(entity.argument, int)
    )
