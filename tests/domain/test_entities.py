"""Styled ranges lie over each other as clients can show them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv.domain.entities import CODES, KINDS, LINKS, MAX_ENTITIES, STYLES, Span, find, nest

SPANS = st.lists(
    st.builds(
        lambda start, length, kind: Span(start, start + length, kind),
        st.integers(0, 30),
        st.integers(0, 15),
        st.sampled_from([*sorted(KINDS), "formattedDate", "unknown"]),
    ),
    max_size=12,
)


@pytest.mark.parametrize(
    ("given_spans", "kept"),
    [
        ([Span(0, 5, "bold"), Span(3, 8, "bold")], [Span(0, 8, "bold")]),
        ([Span(0, 4, "bold"), Span(4, 8, "bold")], [Span(0, 8, "bold")]),
        (
            [Span(0, 5, "bold"), Span(3, 8, "italic")],
            [Span(0, 5, "bold"), Span(3, 5, "italic"), Span(5, 8, "italic")],
        ),
        (
            [Span(0, 9, "bold"), Span(3, 6, "code")],
            [Span(0, 3, "bold"), Span(3, 6, "code"), Span(6, 9, "bold")],
        ),
        ([Span(2, 4, "italic"), Span(0, 9, "pre", "c")], [Span(0, 9, "pre", "c")]),
        ([Span(0, 5, "textUrl", "a"), Span(2, 7, "textUrl", "b")], [Span(0, 5, "textUrl", "a")]),
        ([Span(0, 9, "blockquote"), Span(2, 5, "blockquote")], [Span(0, 9, "blockquote")]),
        ([Span(0, 9, "blockquote"), Span(2, 5, "code")], [Span(0, 9, "blockquote"), Span(2, 5, "code")]),
        ([Span(4, 9, "blockquote"), Span(0, 5, "code")], [Span(4, 9, "blockquote")]),
        ([Span(0, 5, "unknown")], []),
        ([Span(3, 3, "bold")], []),
    ],
)
def test_ranges_are_joined_cut_or_dropped(given_spans: list[Span], kept: list[Span]) -> None:
    assert list(nest(given_spans)) == kept


@given(SPANS)
def test_no_two_ranges_cross_and_code_stands_alone(spans: list[Span]) -> None:
    kept = nest(spans)
    for place, span in enumerate(kept):
        assert span.start < span.end
        for other in kept[place + 1 :]:
            assert not span.crosses(other)
            if span.overlaps(other):
                kinds = {span.kind, other.kind}
                assert len(kinds) == 2
                assert not (kinds & CODES and kinds & (set(STYLES) | set(LINKS)))
                assert len(kinds & set(LINKS)) < 2


@given(SPANS)
def test_a_style_stays_on_every_character_outside_of_code(spans: list[Span]) -> None:
    kept = nest(spans)
    codes = {place for span in kept if span.kind in CODES for place in range(span.start, span.end)}
    for style in STYLES:
        wanted = {place for span in spans if span.kind == style for place in range(span.start, span.end)}
        shown = {place for span in kept if span.kind == style for place in range(span.start, span.end)}
        assert shown == wanted - codes


@given(SPANS)
def test_a_second_time_changes_nothing(spans: list[Span]) -> None:
    once = nest(spans)
    assert nest(once) == once


def test_the_number_is_bounded() -> None:
    kept = nest(Span(2 * place, 2 * place + 1, "bold") for place in range(500))
    assert len(kept) == MAX_ENTITIES
    assert kept[0] == Span(0, 1, "bold")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://example.com/a?b=c#d.", [("url", "https://example.com/a?b=c#d")]),
        ("(http://a.b/c), x", [("url", "http://a.b/c")]),
        ("go to example.com!", [("url", "example.com")]),
        ("пример.рф", [("url", "пример.рф")]),
        ("file.py v1.2.3 a.b", []),
        ("mail me@example.org now", [("email", "me@example.org")]),
        ("@durov, @abc @ @1234", [("mention", "@durov")]),
        ("#tag #тег #1 a#b ##c", [("hashtag", "#tag"), ("hashtag", "#тег")]),
        ("$USD $usd", [("cashtag", "$USD")]),
        ("/start /help@some_bot a/b /a/b", [("botCommand", "/start"), ("botCommand", "/help@some_bot")]),
        ("plain words only", []),
    ],
)
def test_links_and_tags_are_found(text: str, found: list[tuple[str, str]]) -> None:
    assert [(span.kind, text[span.start : span.end]) for span in find(text)] == found


def test_what_the_client_marked_comes_before_what_is_found() -> None:
    text = "see example.com and `other.com` here"
    marked = [Span(0, 15, "textUrl", "http://x"), Span(20, 31, "code"), Span(0, 36, "bold")]
    assert [span.kind for span in nest(marked, find(text))] == ["bold", "textUrl", "code", "bold"]
    assert not any(span.kind == "url" for span in nest(marked, find(text)))


@pytest.mark.parametrize(
    "text", ["a." * 2048, "@" * 4096, "a@" * 2048, "#1" * 2048, "/" * 4096, "-." * 2048, "http://" * 585]
)
def test_hostile_texts_are_searched_in_linear_time(text: str) -> None:
    assert all(span.end <= len(text) for span in find(text))
