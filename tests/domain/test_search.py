"""What a query matches, and that the index of terms leaves no match out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv.domain.messages import Entity
from telesrv.domain.search import MAX_QUERY, MAX_TERM, MAX_TERMS, URL_TERM, Query, fold, has_link, terms_of

FOUND = [
    ("hel", "Hello there"),
    ("there hello", "hello, there"),
    ("ПРИВ", "Всем привет!"),
    ("еж", "Ёжик в тумане"),
    ("ёж", "ежик"),
    ("cafe", "Un café crème"),
    ("café", "CAFE"),
    ("strasse", "Große Straße"),
    ("好", "你好吗"),
    ("你", "你好吗"),
    ("好吗", "你好吗"),
    ("你好吗", "说:你好吗?"),
    ("すし", "おすしが好き"),
    ("👍", "good 👍🏽!"),
    ("👍🏽", "👍"),
    ("👨‍👩‍👧", "we: 👨‍👩‍👧"),
    ("❤", "❤️"),
    ("iphone 手机", "我的iPhone15手机"),
    ("c++", "C++ and C"),
    ("case", "snake_case"),
    ("?!", "what?!"),
    ("don't", "I DON'T know"),
    ("ＡＢＣ", "abcd"),
    ("हिन्दी", "मैं हिन्दी बोलता हूँ"),
    ("x" * 100, "x" * 200),
]
MISSED = [
    ("ello", "hello"),
    ("hello world", "hello"),
    ("иван", "йван"),
    ("吗好", "你好吗"),
    ("👎", "👍"),
    ("?!", "what!?"),
    ("x" * 100, "x" * 99),
]


@pytest.mark.parametrize(("query", "text"), FOUND)
def test_found(query: str, text: str) -> None:
    assert Query(query).matches(text)
    assert_indexed(Query(query), text)


@pytest.mark.parametrize(("query", "text"), MISSED)
def test_missed(query: str, text: str) -> None:
    assert not Query(query).matches(text)


def assert_indexed(query: Query, text: str) -> None:
    terms = terms_of(text)
    for wanted in query.terms:
        assert any(term.startswith(wanted) for term in terms), (wanted, terms)


ALPHABET = "aB é_Ёи\u0306й你好すしงา👍🏽\u200d❤\ufe0f+?'\"हिन्\u0301ßİK㎏1"


@given(st.text(ALPHABET, max_size=40), st.text(ALPHABET, max_size=4))
def test_terms_leave_no_match_out(text: str, words: str) -> None:
    query = Query(words)
    if query.matches(text):
        assert_indexed(query, text)


@given(st.text(max_size=60), st.integers(0, 60), st.integers(1, 10))
def test_terms_leave_no_match_out_of_any_text(text: str, start: int, length: int) -> None:
    query = Query(text[start : start + length])
    if query.matches(text):
        assert_indexed(query, text)
    assert fold(fold(text)) == fold(text) or "\u0345" in text


def test_queries_are_bounded() -> None:
    long = Query("слово" * 10_000)
    assert [len(term) for term in long.terms] == [MAX_TERM]
    many = Query(" ".join(map(str, range(1000, 2000))))
    assert len(many.terms) == MAX_TERMS
    assert not many.matches("1000")
    assert len(Query("好" * MAX_QUERY + "吗").terms) == 1
    for nothing in ("", " \n", "\u200d", "\ufe0f"):
        assert Query(nothing).empty
        assert Query(nothing).matches("anything")
    for odd in ("\x00", "\ud800", "\ud83d x", "?"):
        assert not Query(odd).matches("anything")


def test_links() -> None:
    assert has_link([Entity("bold", 0, 3), Entity("url", 4, 9)])
    assert has_link([Entity("textUrl", 0, 3, "https://a.example")])
    assert not has_link([Entity("bold", 0, 3)])
    assert URL_TERM not in terms_of(URL_TERM), "no text has this term"


def test_terms_of_several_texts() -> None:
    assert terms_of("one two\n你好\none") == terms_of("one two") | terms_of("你好")
