"""Texts are stored clean, and their styles stay over the same characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv.domain.entities import EntityBoundsInvalid
from telesrv.domain.messages import MAX_TEXT_CODE_POINTS, Entity
from telesrv.domain.text import FormattedText, TextEmpty, TextTooLong, clean_text, utf16_length

WITH_BAD = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("\x00\r\n\t \u202e\u200b\U0001f600"),
        st.characters(categories=["Cs"]),
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("hello", "hello"),
        ("  hello \n", "hello"),
        ("a\x00b\x1bc", "a b c"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("abc\u202edef", "abcdef"),
        ("a\ud800b", "ab"),
        ("e\u0301 \U0001f469\u200d\U0001f4bb", "e\u0301 \U0001f469\u200d\U0001f4bb"),
    ],
)
def test_what_is_stored(sent: str, stored: str) -> None:
    assert clean_text(sent).text == stored


@pytest.mark.parametrize(
    "sent", ["", " ", "\n\t\r", "\u200b\u2060 \ufeff", "\x00", "\u202e", "\ud83d", "\u3164"]
)
def test_nothing_visible_is_refused(sent: str) -> None:
    with pytest.raises(TextEmpty):
        clean_text(sent)


def test_the_length_counts_code_points_of_what_is_left() -> None:
    assert len(clean_text("\U0001f600" * MAX_TEXT_CODE_POINTS + "  ").text) == MAX_TEXT_CODE_POINTS
    with pytest.raises(TextTooLong):
        clean_text("x" * (MAX_TEXT_CODE_POINTS + 1))
    with pytest.raises(TextTooLong):
        clean_text("x" * 11, limit=10)


def test_entities_move_with_the_text() -> None:
    assert clean_text("  \U0001f600 bold\r!", [Entity("bold", 5, 6)]) == FormattedText(
        "\U0001f600 bold!", (Entity("bold", 3, 5),)
    )


def test_entities_are_cut_at_the_trimmed_ends() -> None:
    assert clean_text(" ab ", [Entity("bold", 0, 4), Entity("italic", 0, 1)]) == FormattedText(
        "ab", (Entity("bold", 0, 2),)
    )


def test_a_border_inside_a_pair_takes_the_whole_character() -> None:
    assert clean_text("\U0001f600a", [Entity("bold", 1, 1)]).entities == (Entity("bold", 0, 2),)


@pytest.mark.parametrize(
    "entity",
    [
        Entity("bold", -1, 2),
        Entity("bold", 0, -1),
        Entity("bold", 0, 4),
        Entity("bold", 4, 0),
        Entity("bold", 2**31 - 1, 1),
    ],
)
def test_an_entity_outside_of_the_text_is_refused(entity: Entity) -> None:
    with pytest.raises(EntityBoundsInvalid):
        clean_text("abc", [entity])


@given(WITH_BAD, st.data())
def test_what_was_stored_is_stored_alike_again(sent: str, data: st.DataObject) -> None:
    units = utf16_length(sent)
    offsets = st.integers(0, units)
    raw = data.draw(
        st.lists(st.tuples(st.sampled_from(["bold", "italic", "code", "url"]), offsets, offsets), max_size=6)
    )
    entities = [Entity(kind, min(a, b), abs(a - b)) for kind, a, b in raw]
    try:
        once = clean_text(sent, entities)
    except TextEmpty:
        return
    once.text.encode()
    assert "\x00" not in once.text
    for entity in once.entities:
        assert entity.length > 0
        assert entity.offset + entity.length <= utf16_length(once.text)
    assert clean_text(once.text, once.entities) == once
