"""Changes of messages become what clients of every layer can read."""

from __future__ import annotations

import pytest

from telesrv import tl
from telesrv.domain.messages import PINNED, Entity, ForwardHeader
from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import ScheduledMessage
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.updates import event_user_ids, pushed_updates
from telesrv.store.scheduled_rows import scheduled_to_json
from telesrv.tl import types
from tests.rpc.test_convert_messages import FRIEND, LAYERS, OWNER, THIRD, VIEWS, a_box, an_event

BOX = a_box(
    edit_date=1_700_000_060,
    flags=PINNED,
    expires_at=1_700_086_400,
    fwd=ForwardHeader(1_600_000_000, THIRD, saved_from=Peer.user(FRIEND), saved_from_box_id=5),
)
WAITING = ScheduledMessage(
    OWNER, 3, Peer.user(FRIEND), 7, b"", 1_700_000_600, "later", (Entity("mentionName", 0, 2, THIRD),)
)
EVENTS = [
    an_event(EventKind.EDIT_MESSAGE),
    an_event(
        EventKind.DELETE_MESSAGES,
        pts_count=2,
        payload={"box_ids": [6, 7], "unread": [[1, FRIEND, 4, 1]]},
        peer=None,
        box_id=0,
    ),
    an_event(EventKind.PINNED_MESSAGES, pts_count=2, payload={"box_ids": [6, 7], "pinned": True}, box_id=0),
    an_event(EventKind.CONTENTS_READ, payload={"box_ids": [7]}, box_id=0, peer=None),
    an_event(EventKind.HISTORY_TTL, payload={"period_s": 60}, box_id=0),
    an_event(EventKind.SCHEDULED_MESSAGE, payload=scheduled_to_json(WAITING), box_id=3),
    an_event(EventKind.SCHEDULED_DELETED, payload={"ids": [3], "sent_ids": [9]}, box_id=0),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind.name)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_reads_every_change(event: Event, layer: int) -> None:
    updates = pushed_updates(event, BOX, VIEWS)
    moved = sum(getattr(update, "pts_count", 0) for update in updates)
    assert moved == event.pts_count
    assert all(getattr(update, "pts", event.pts) == event.pts for update in updates)
    answer = types.Updates(updates=updates, users=[], chats=[], date=1, seq=0)
    assert tl.read(tl.write(answer, layer))


def test_a_message_shows_what_became_of_it() -> None:
    [update] = pushed_updates(EVENTS[0], BOX, VIEWS)
    assert isinstance(update, types.UpdateEditMessage) and isinstance(update.message, types.Message)
    message = update.message
    assert (message.pinned, message.ttl_period, message.edit_date) == (True, 86_400, 1_700_000_060)
    assert message.fwd_from == types.MessageFwdHeader(
        date=1_600_000_000,
        from_id=types.PeerUser(user_id=THIRD),
        saved_from_peer=types.PeerUser(user_id=FRIEND),
        saved_from_msg_id=5,
    )
    assert pushed_updates(EVENTS[0], None, VIEWS) == [
        types.UpdateDeleteMessages(messages=[], pts=12, pts_count=1)
    ]


def test_every_account_that_is_shown_is_named() -> None:
    assert event_user_ids(EVENTS[0], BOX) >= {FRIEND, THIRD}
    assert event_user_ids(EVENTS[1], None) == {FRIEND}
    assert event_user_ids(EVENTS[5], None) == {OWNER, FRIEND, THIRD}
    assert event_user_ids(EVENTS[6], None) == {FRIEND}
