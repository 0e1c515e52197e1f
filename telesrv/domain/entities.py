"""How styled ranges of one text may lie over each other.

Of two ranges that share a character one contains the other. Code contains nothing; links, mentions and code
never contain each other; a block quote stands in no block quote; the five styles go with everything but code.
Links, mentions and tags that a client left in plain text are found here, as clients expect of a server.

*Spec: Styled text with message entities*
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from telesrv.domain.errors import DomainError

MAX_ENTITIES: Final = 100
"""What a message may carry; clients are told nothing of those beyond."""
MAX_ARGUMENT_BYTES: Final = 8_192
"""Of all links and languages of a text together, in UTF-8. With the bound on its length it says what a
message can weigh, and so what a page of a hundred can."""

STYLES: Final = ("bold", "italic", "underline", "strike", "spoiler")
CODES: Final = frozenset({"code", "pre"})
BLOCKQUOTE: Final = "blockquote"
LINKS: Final = (
    "textUrl",
    "mentionName",
    "url",
    "email",
    "phone",
    "mention",
    "hashtag",
    "cashtag",
    "botCommand",
    "bankCard",
)
KINDS: Final = frozenset((*STYLES, *CODES, BLOCKQUOTE, *LINKS))
"""Every kind that is kept; others are dropped from what a client sends."""

_ORDER: Final = {kind: place for place, kind in enumerate((BLOCKQUOTE, "pre", "code", *LINKS, *STYLES))}


class EntityBoundsInvalid(DomainError):
    """A styled range reaches outside of its text."""


class EntitiesTooLong(DomainError):
    """The links and languages of a text are too long together."""


@dataclass(frozen=True, slots=True)
class Span:
    """A styled range from the character *start* to before *end*, counted in code points."""

    start: int
    end: int
    kind: str
    argument: str | int | None = None

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end

    def within(self, other: Span) -> bool:
        return other.start <= self.start and self.end <= other.end

    def crosses(self, other: Span) -> bool:
        """Tells whether each has characters of its own besides shared ones."""
        return self.overlaps(other) and not self.within(other) and not other.within(self)


def nest(spans: Iterable[Span], found: Iterable[Span] = ()) -> tuple[Span, ...]:
    """Returns *spans* as a message may carry them: nested, none twice, at most MAX_ENTITIES, in order.

    Where two ranges cross, a style is cut at the other's border and so looks the same; of the others the one
    that begins first stays. Those *found* in the text come in where no link or code of *spans* stands.
    """
    known = sorted((span for span in spans if span.kind in KINDS and span.start < span.end), key=_key)
    kept: list[Span] = []
    for span in known:
        if span.kind == BLOCKQUOTE and not any(span.overlaps(other) for other in kept):
            kept.append(span)
    quotes = tuple(kept)
    alone: list[Span] = []
    for span in itertools.chain(known, found):
        if span.kind == BLOCKQUOTE or span.kind in STYLES:
            continue
        if len(alone) == 2 * MAX_ENTITIES:
            break  # what begins later would not be among the first ones
        if any(span.overlaps(other) for other in alone):
            continue
        if any(span.overlaps(quote) and not span.within(quote) for quote in quotes):
            continue
        alone.append(span)
    kept += alone
    codes = [span for span in alone if span.kind in CODES]
    for style in STYLES:
        ranges = _union((span.start, span.end) for span in known if span.kind == style)
        for start, end in _without(ranges, codes):
            kept += _cut(Span(start, end, style), kept)
    return tuple(sorted(kept, key=_key)[:MAX_ENTITIES])


_MARKS: Final = re.compile(r"[.@#$/]")
"""No link, mention or tag goes without one of these."""
_TOP_LEVEL: Final = (
    "com|org|net|info|biz|io|me|co|app|dev|xyz|site|online|ai|tv|cc|gg|ly|to|edu|gov|int|mil|eu|uk|us|de|fr|it|es|pt"
    "|nl|be|ch|at|se|no|fi|dk|pl|cz|sk|hu|ro|bg|gr|tr|ua|by|ru|рф|su|kz|uz|ge|am|az|ir|il|in|cn|jp|kr|tw|hk|sg|my|id"
    "|th|vn|ph|au|nz|ca|mx|br|ar|cl|pe|za|eg|ng|ke|ie|is|lt|lv|ee|rs|hr|si"
)
_FOUND: Final = re.compile(
    rf"""
      (?P<email> (?<![\w.+-]) [\w.+-]{{1,64}} @ (?:[\w-]{{1,63}}\.){{1,8}} [a-z]{{2,24}} (?![\w@-]) )
    | (?P<url> (?<![\w@.+-]) (?: (?:https?|ftp|tg|ton):// [^\s<>"]{{1,2048}}
        | (?:[\w-]{{1,63}}\.){{1,8}} (?:{_TOP_LEVEL}) (?![\w@-]|\.\w)
            (?: :\d{{1,5}} )? (?: [/?#] [^\s<>"]{{0,2048}} )? ) )
    | (?P<mention> (?<![\w@/]) @ [a-z]\w{{3,31}} (?!\w) )
    | (?P<hashtag> (?<![\w#]) \# (?=\d*[^\W\d]) \w{{1,256}} (?!\w) )
    | (?P<cashtag> (?<![\w$]) \$ (?-i:[A-Z]{{1,8}}) (?!\w) )
    | (?P<botCommand> (?<![\w/<>]) / (?a:\w{{1,64}}) (?: @ (?a:\w{{3,32}}) )? (?![\w/]) )
    """,
    re.VERBOSE | re.IGNORECASE,
)


def find(text: str) -> Iterator[Span]:
    """Yields the links, addresses, mentions, tags and commands that stand in *text*, from left to right.

    Punctuation behind a link is not part of it. The time it takes grows with the length of the text only.
    """
    if not _MARKS.search(text):
        return
    for match in _FOUND.finditer(text):
        kind = str(match.lastgroup)
        end = match.end()
        if kind == "url":
            end = match.start() + len(match.group().rstrip(".,:;!?'\"`)]}»…"))
        yield Span(match.start(), end, kind)


def _key(span: Span) -> tuple[int, int, int, str]:
    return span.start, -span.end, _ORDER[span.kind], str(span.argument)


def _union(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the ranges in order, those that touch joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _without(ranges: list[tuple[int, int]], holes: Iterable[Span]) -> list[tuple[int, int]]:
    """Returns what is left of *ranges* outside of *holes*."""
    for hole in holes:
        left = []
        for start, end in ranges:
            if end <= hole.start or hole.end <= start:
                left.append((start, end))
                continue
            if start < hole.start:
                left.append((start, hole.start))
            if hole.end < end:
                left.append((hole.end, end))
        ranges = left
    return ranges


def _cut(span: Span, others: Iterable[Span]) -> list[Span]:
    """Returns *span* in pieces none of which crosses any of *others*."""
    borders = {span.start, span.end}
    for other in others:
        if span.crosses(other):
            borders.update(border for border in (other.start, other.end) if span.start < border < span.end)
    ordered = sorted(borders)
    return [Span(start, end, span.kind) for start, end in itertools.pairwise(ordered)]
