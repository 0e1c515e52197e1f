"""Dialog filters and drafts as values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telesrv.domain.drafts import Draft, draft_from_json, draft_to_json
from telesrv.domain.filters import (
    DEFAULT_ID,
    DialogFilter,
    filter_from_json,
    filter_to_json,
    ordered,
    suggested,
)
from telesrv.domain.messages import Entity, ReplyTo
from telesrv.domain.peers import Peer, PeerType

PEERS = st.lists(st.builds(Peer, st.sampled_from(PeerType), st.integers(1, 9)), max_size=3).map(tuple)
FILTERS = st.builds(
    DialogFilter,
    st.integers(2, 255),
    st.text(max_size=5),
    emoticon=st.none() | st.text(min_size=1, max_size=2),
    color=st.none() | st.integers(0, 6),
    contacts=st.booleans(),
    exclude_read=st.booleans(),
    pinned=PEERS,
    included=PEERS,
    excluded=PEERS,
)
ENTITIES = st.lists(
    st.builds(Entity, st.sampled_from(["bold", "pre"]), st.integers(0, 9), st.integers(1, 9)), max_size=2
).map(tuple)
DRAFTS = st.builds(
    Draft,
    st.integers(0, 9),
    st.text(max_size=5),
    ENTITIES,
    st.booleans(),
    st.booleans(),
    st.none() | st.builds(ReplyTo, st.integers(1, 9), st.none() | st.text(max_size=2), ENTITIES),
    st.none() | st.just({"url": "https://example.com/"}),
)


@given(FILTERS)
def test_a_filter_survives_its_snapshot(filter_: DialogFilter) -> None:
    # an empty title is never stored, and is all that a snapshot may leave out
    assert filter_from_json(filter_to_json(filter_) | {"title": filter_.title}) == filter_


@given(DRAFTS)
def test_a_draft_survives_its_snapshot(draft: Draft) -> None:
    assert draft_from_json(draft_to_json(draft)) == draft
    assert draft.same(draft)


@given(st.sets(st.integers(2, 9)), st.lists(st.integers(-1, 9)))
def test_an_order_has_each_filter_once(filter_ids: set[int], wanted: list[int]) -> None:
    order = ordered(filter_ids, wanted)
    assert sorted(order) == sorted({DEFAULT_ID, *filter_ids})
    assert ordered(filter_ids, order) == order


def test_what_is_there_is_not_suggested() -> None:
    both = suggested([])
    assert [filter_.title for filter_ in both] == ["Unread", "Personal"]
    assert suggested([filter_from_json(filter_to_json(filter_) | {"id": 3}) for filter_ in both]) == []
