"""What a search finds: the rules by which a query matches a text, and the terms a text is found by.

A query is cut into words, runs of characters of scripts that put no blanks between words, and symbols. A
text matches when it has all of them: a word as the beginning of a word, a run anywhere, a symbol anywhere.
Case, accents and the presentation of emoji make no difference. A query of nothing but punctuation is looked
for as it stands.

The terms of a text are its words, the pairs of neighbours in its runs, and its symbols. Every part of a query
that the text matches is the beginning of one of its terms, so that an index of terms leaves no match out;
what it finds is still to be compared with the text.

*Spec: messages.search*
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from telesrv.domain.messages import Entity, MessageBox
from telesrv.domain.peers import Peer

MAX_QUERY: Final = 256
"""Code points of a query that are looked at."""
MAX_TERM: Final = 32
"""Code points of a word that are indexed."""
MAX_TERMS: Final = 12
"""Terms of a query that are looked up; all of its parts are compared."""
_MAX_REMEMBERED: Final = 32
"""Code points between blanks whose terms are remembered; what is longer seldom comes again."""
URL_TERM: Final = "\x01url"
"""What a message with a link is found by; no text has such a word."""

_URL_KINDS: Final = frozenset({"url", "textUrl"})
# Thai to Burmese, Khmer, kana, Han and its compatibility forms: no blanks between words.
_RUN: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff"
)
_SIGNS: Final = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
_VOWELS: Final = "\u0900-\u0dff"
"""Indic blocks, whose vowel signs belong to words."""
_DROPPED: Final = re.compile(f"[{_SIGNS}\u00ad\u200b-\u200d\u2060\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")
"""Accents, optional vowels, joiners and what only changes how an emoji is shown."""
_TOKEN: Final = re.compile(f"([{_RUN}]+)|((?:[^\\W_{_RUN}]|[{_VOWELS}])+)|(\\S)")
_SHORT_I: Final = "\u0438\u0306"
_WORD_BEFORE: Final = f"(?<![^\\W_{_RUN}])(?<![{_VOWELS}])"


def fold(text: str) -> str:
    """Returns *text* without what a search makes no difference of."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    kept = decomposed.replace(_SHORT_I, "\u0439")  # a letter of its own
    return unicodedata.normalize("NFC", _DROPPED.sub("", kept))


@lru_cache(maxsize=4096)
def _is_symbol(character: str) -> bool:
    return unicodedata.category(character)[0] == "S"


def _tokens(folded: str) -> Iterable[tuple[int, str]]:
    """Yields (1 run, 2 word, 3 symbol; the token)."""
    for found in _TOKEN.finditer(folded):
        kind = found.lastindex or 0
        token = found[0]
        if kind != 3 or _is_symbol(token):
            yield kind, token


def terms_of(text: str) -> set[str]:
    """Returns what a text is found by; of several texts, when blanks stand between them."""
    return set().union(*map(_terms_between_blanks, set(text.split())))


def _terms_between_blanks(part: str) -> frozenset[str]:
    return _remembered_terms(part) if len(part) <= _MAX_REMEMBERED else _terms(part)


def _terms(part: str) -> frozenset[str]:
    terms: set[str] = set()
    for kind, token in _tokens(fold(part)):
        if kind == 1:
            terms.update(token[place : place + 2] for place in range(len(token)))
        else:
            terms.add(token[:MAX_TERM])
    return frozenset(terms)


# Few words make up most of a language. 16,384 of at most 32 code points are a few megabytes.
_remembered_terms = lru_cache(maxsize=16_384)(_terms)


def has_link(entities: Iterable[Entity]) -> bool:
    """Tells whether a text has a link."""
    return any(entity.kind in _URL_KINDS for entity in entities)


class Query:
    """A text to be looked for.

    Attributes:
        terms: beginnings of terms that every text has which matches; empty when the index cannot tell.
        empty: whether it asks for no text at all.
    """

    def __init__(self, text: str) -> None:
        folded = fold(text[:MAX_QUERY]).strip()
        self._parts: set[str] = set()
        words: set[str] = set()
        terms: set[str] = set()
        for kind, token in _tokens(folded):
            if kind == 2:
                words.add(token)
                terms.add(token[:MAX_TERM])
            else:
                self._parts.add(token)
                pairs = range(max(1, len(token) - 1))
                terms.update(token[place : place + 2] for place in pairs)
        if not words and not self._parts and folded:
            self._parts.add(folded)
        self._words = [re.compile(_WORD_BEFORE + re.escape(word)) for word in sorted(words)]
        self.terms: tuple[str, ...] = tuple(sorted(terms, key=lambda term: (-len(term), term))[:MAX_TERMS])
        self.empty = not self._words and not self._parts

    def matches(self, text: str) -> bool:
        """Tells whether *text* is found."""
        folded = fold(text)
        return all(part in folded for part in self._parts) and all(
            word.search(folded) is not None for word in self._words
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What to look for among the owner's messages; ids and dates of 0 are no bound."""

    owner: int
    query: Query
    peer: Peer | None = None
    """The chat; None: all of them."""
    outgoing: bool | None = None
    """Only the owner's own messages, or only those of others."""
    links: bool = False
    """Only messages with a link."""
    pinned: bool = False
    """Only pinned messages."""
    folder_id: int | None = None
    """Only chats of this folder."""
    min_date: int = 0
    max_date: int = 0
    """Only messages after the one and before the other."""
    offset_id: int = 0
    add_offset: int = 0
    limit: int = 0
    max_id: int = 0
    min_id: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A page of what was found, newest first."""

    boxes: tuple[MessageBox, ...]
    total: int
    """How many there are altogether; when *inexact* only about."""
    newer: int
    """How many of them stand before the page."""
    inexact: bool = False
    more: bool = False
    """There may be older ones."""
