"""What undoes each other is changed at once, over and over: the log ends where the changes did."""

from __future__ import annotations

from typing import Final

import pytest
import uvloop

from telesrv.domain.updates import LAST_ONE_HOLDS, EventKind
from tests.model.world import race

ROUNDS = 12
AT_ONCE = 24

E = EventKind
RACES: Final = {
    "chats": (
        {"arrange": 6, "mark": 3, "delete_history": 4, "delete": 1, "send": 2, "read": 2},
        {E.DIALOG_PINNED, E.PINNED_DIALOGS, E.FOLDER_PEERS, E.DIALOG_UNREAD_MARK, E.CHATS_DELETED},
    ),
    "archiving": (
        {"delete_history": 6, "send": 6, "notify": 3, "switches": 1, "contacts": 1, "arrange": 1},
        {E.FOLDER_PEERS, E.NOTIFY_SETTINGS, E.CHATS_DELETED},
    ),
    "marks": ({"mark": 4, "read": 4, "send": 3, "delete_history": 1}, {E.DIALOG_UNREAD_MARK}),
    "reads": ({"read": 6, "send": 6, "delete": 1}, {E.READ_INBOX, E.READ_OUTBOX}),
    "drafts": ({"draft": 6, "send": 1}, {E.DRAFT}),
    "filters": ({"filters": 1}, {E.DIALOG_FILTER, E.DIALOG_FILTER_ORDER, E.DIALOG_FILTERS}),
    "people": ({"block": 3, "contacts": 4, "arrange": 1}, {E.PEER_BLOCKED, E.PEER_SETTINGS}),
    "settings": ({"privacy": 2, "notify": 4}, {E.PRIVACY, E.NOTIFY_SETTINGS}),
    "periods": ({"ttl": 5, "send": 1}, {E.HISTORY_TTL}),
    "pins": ({"pin": 5, "unpin_all": 1, "send": 1, "delete": 1}, {E.PINNED_MESSAGES}),
    "scheduled": ({"schedule": 2, "scheduled": 5}, {E.SCHEDULED_MESSAGE, E.SCHEDULED_DELETED}),
    "profile": ({"profile": 2, "phone": 1}, {E.USER_CHANGED, E.PHONE_CHANGED}),
}
"""What is raced, by topic: how often each call is made, and the events that must come of it."""


@pytest.mark.parametrize("topic", RACES)
def test_the_later_change_has_the_later_pts(
    postgres_dsn: str, redis_url: str, redis_prefix: str, topic: str
) -> None:
    weights, kinds = RACES[topic]
    assert kinds <= uvloop.run(race(postgres_dsn, redis_url, redis_prefix, 1, ROUNDS, AT_ONCE, weights))


def test_every_kind_of_which_the_last_one_holds_is_raced() -> None:
    assert set(LAST_ONE_HOLDS) <= set[EventKind]().union(*(kinds for _, kinds in RACES.values()))
