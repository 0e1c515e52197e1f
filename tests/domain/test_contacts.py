"""What the action bar of a chat offers."""

from __future__ import annotations

import itertools

from telesrv.domain.contacts import action_bar


def test_a_bar_offers_what_is_not_done_and_nothing_when_blocked_or_closed() -> None:
    for listed, shared, blocked, hidden in itertools.product([False, True], repeat=4):
        bar = action_bar(listed=listed, phone_shared=shared, blocked=blocked, hidden=hidden)
        if blocked or hidden:
            assert not any(bar.values())
        else:
            assert bar == {
                "add_contact": not listed,
                "block_contact": not listed,
                "share_contact": listed and not shared,
            }
