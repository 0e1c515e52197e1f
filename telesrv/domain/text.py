"""Message texts: what is stored of what a client sent.

A text that passes here can be stored and shown: no NUL, no lone surrogate, no character that turns the
reading direction of what follows, no blank ends, and within the length a message may have. The styled ranges
keep lying over the same characters.

*Spec: Styled text with message entities*
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from telesrv.domain.entities import (
    MAX_ARGUMENT_BYTES,
    MAX_ENTITIES,
    EntitiesTooLong,
    EntityBoundsInvalid,
    Span,
    find,
    nest,
)
from telesrv.domain.errors import DomainError
from telesrv.domain.messages import MAX_TEXT_CODE_POINTS, Entity

MAX_QUOTE_CODE_POINTS: Final = 1024
MAX_QUOTE_OFFSET: Final = 4096

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Shown as a blank; tab and line feed stay."""
_DROPPED: Final = re.compile("[\r\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Carriage returns, line and direction controls, and halves of surrogate pairs."""
_INVISIBLE: Final = re.compile(
    "[\\s\u00ad\u115f\u1160\u180b-\u180e\u200b-\u200f\u2060-\u2064\u2800\u3164\ufe00-\ufe0f\ufeff]+"
)
"""A text of nothing but these shows nothing."""


class TextEmpty(DomainError):
    """Nothing would be shown."""


class TextTooLong(DomainError):
    """The text has more code points than a message may have."""


@dataclass(frozen=True, slots=True)
class FormattedText:
    """A clean text with well-nested entities."""

    text: str
    entities: tuple[Entity, ...] = ()


def utf16_length(text: str) -> int:
    """Returns how many UTF-16 code units *text* takes; entities count in them."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def clean_text(
    text: str,
    entities: Sequence[Entity] = (),
    *,
    limit: int = MAX_TEXT_CODE_POINTS,
    as_typed: bool = False,
) -> FormattedText:
    """Returns the text as it is stored, with its entities moved along, nested and bounded in number.

    Links and tags in plain text get their entity. Cleaning a second time changes nothing, as long as the
    bound on entities is not reached. An entity border inside a surrogate pair is moved to take in the whole
    character.

    Args:
        text: as the client sent it.
        entities: offsets count UTF-16 code units of *text*; any order, any overlap.
        limit: the most code points that may be left.
        as_typed: keep the blanks at the ends and look for no links: the text is not finished.

    Raises:
        TextEmpty: nothing visible is left.
        TextTooLong: more than *limit* code points are left.
        EntityBoundsInvalid: an entity reaches outside of *text*.
        EntitiesTooLong: their links and languages are too long together.

    *Spec: Styled text with message entities*
    """
    spans = _spans(text, entities) if entities else []
    cleaned = _CONTROL.sub(" ", text)
    if _DROPPED.search(cleaned):
        spans = _without_dropped(cleaned, spans)
        cleaned = _DROPPED.sub("", cleaned)
    body = cleaned if as_typed else cleaned.lstrip()
    blank_head = len(cleaned) - len(body)
    body = body if as_typed else body.rstrip()
    if not body or _INVISIBLE.fullmatch(body):
        raise TextEmpty
    if len(body) > limit:
        raise TextTooLong
    found = () if as_typed else tuple(find(body))
    if not spans and not found:
        return FormattedText(body)
    moved = (
        Span(max(span.start - blank_head, 0), min(span.end - blank_head, len(body)), span.kind, span.argument)
        for span in spans
    )
    nested = nest((span for span in moved if span.start < span.end), found)
    arguments = (span.argument for span in nested if isinstance(span.argument, str))
    if sum(len(argument.encode()) for argument in arguments) > MAX_ARGUMENT_BYTES:
        raise EntitiesTooLong
    return FormattedText(body, _entities(body, nested))


def _spans(text: str, entities: Sequence[Entity]) -> list[Span]:
    """Returns the entities in code points, in order of their offset, no more than the bound."""
    units = utf16_length(text)
    index: Sequence[int] = range(units + 1)
    if units != len(text):
        index = _code_point_of_unit(text)
    spans = []
    for entity in sorted(entities, key=lambda entity: entity.offset):
        end = entity.offset + entity.length
        if entity.offset < 0 or entity.length < 0 or end > units:
            raise EntityBoundsInvalid
        if entity.length == 0:
            continue
        start = index[entity.offset]
        stop = index[end - 1] + 1
        spans.append(Span(start, stop, entity.kind, entity.argument))
    return spans[:MAX_ENTITIES]


def _code_point_of_unit(text: str) -> list[int]:
    """Returns for each UTF-16 code unit the index of the character it belongs to, and one past the end."""
    index: list[int] = []
    for position, character in enumerate(text):
        index.append(position)
        if character > "\uffff":
            index.append(position)
    index.append(len(text))
    return index


def _without_dropped(text: str, spans: Iterable[Span]) -> list[Span]:
    """Returns the spans as they lie once the dropped characters of *text* are gone."""
    kept = [0]
    for character in text:
        kept.append(kept[-1] + (_DROPPED.match(character) is None))
    return [Span(kept[span.start], kept[span.end], span.kind, span.argument) for span in spans]


def _entities(text: str, spans: Sequence[Span]) -> tuple[Entity, ...]:
    """Returns the spans as entities, offsets counted in UTF-16 code units of *text*."""
    if text.isascii() or utf16_length(text) == len(text):
        return tuple(Entity(s.kind, s.start, s.end - s.start, s.argument) for s in spans)
    unit = [0]
    for character in text:
        unit.append(unit[-1] + (2 if character > "\uffff" else 1))
    return tuple(Entity(s.kind, unit[s.start], unit[s.end] - unit[s.start], s.argument) for s in spans)
