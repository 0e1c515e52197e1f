"""The list of chats on real servers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from telesrv.domain.dialogs import Dialog
from telesrv.domain.peers import Peer
from telesrv.store import Store
from tests.store.world import ANNA, BORIS, CLARA, DATE, add_users, send

OTHERS = range(2_000, 2_025)


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA, *OTHERS)


async def all_pages(store: Store, owner: int, limit: int) -> list[Dialog]:
    """Pages as a client does: by the last dialog it has."""
    dialogs: list[Dialog] = []
    page = await store.dialogs.page(owner, limit=limit)
    while page.dialogs:
        dialogs += page.dialogs
        assert {dialog.top_box_id for dialog in page.dialogs} == page.top_boxes.keys()
        last = page.dialogs[-1]
        page = await store.dialogs.page(
            owner,
            limit=limit,
            offset_date=last.top_date,
            offset_id=last.top_box_id,
            offset_peer=last.peer,
        )
    return dialogs


@pytest.mark.parametrize("limit", [1, 4, 25, 100])
async def test_pages_give_every_dialog_once_newest_first(store: Store, limit: int) -> None:
    for i, other in enumerate(OTHERS):
        await send(store, other, ANNA, date=DATE + i // 5)
    dialogs = await all_pages(store, ANNA, limit)
    assert [dialog.peer.id for dialog in dialogs] == list(reversed(OTHERS))
    assert all(one.top_date >= other.top_date for one, other in pairwise(dialogs))
    assert (await store.dialogs.page(ANNA, limit=1)).total == len(OTHERS)


async def test_a_dialog_that_moves_up_hides_no_other(store: Store) -> None:
    for i, other in enumerate(OTHERS):
        await send(store, other, ANNA, date=DATE + i)
    first = await store.dialogs.page(ANNA, limit=10)
    await send(store, OTHERS[0], ANNA, date=DATE + 100)
    last = first.dialogs[-1]
    rest = await store.dialogs.page(
        ANNA, offset_date=last.top_date, offset_id=last.top_box_id, offset_peer=last.peer
    )
    assert [dialog.peer.id for dialog in rest.dialogs] == list(reversed(OTHERS))[10:-1]


async def test_an_offset_id_alone_is_enough(store: Store) -> None:
    for i, other in enumerate(OTHERS):
        await send(store, other, ANNA, date=DATE + i)
    page = await store.dialogs.page(ANNA, offset_id=5)
    assert [dialog.top_box_id for dialog in page.dialogs] == [4, 3, 2, 1]


async def test_the_top_is_the_newest_message(store: Store) -> None:
    await send(store, ANNA, BORIS, "one", date=DATE)
    await send(store, BORIS, ANNA, "two", date=DATE + 1)
    page = await store.dialogs.page(BORIS)
    [dialog] = page.dialogs
    assert (dialog.top_box_id, dialog.top_date, dialog.unread_count) == (2, DATE + 1, 1)
    assert page.top_boxes[2].text == "two"


async def test_folders_and_pins(store: Store) -> None:
    for other in (BORIS, CLARA, OTHERS[0]):
        await send(store, other, ANNA)
    await store.pool.execute(
        "UPDATE dialogs SET folder_id = 1 WHERE owner_user_id = $1 AND peer_id = $2", ANNA, BORIS
    )
    await store.pool.execute(
        "UPDATE dialogs SET pinned_order = 4 WHERE owner_user_id = $1 AND peer_id = $2", ANNA, CLARA
    )
    archive = await store.dialogs.page(ANNA, folder_id=1)
    assert ([dialog.peer.id for dialog in archive.dialogs], archive.total) == ([BORIS], 1)
    unpinned = await store.dialogs.page(ANNA, folder_id=0, exclude_pinned=True)
    assert ([dialog.peer.id for dialog in unpinned.dialogs], unpinned.total) == ([OTHERS[0]], 2)
    pinned = await store.dialogs.pinned(ANNA, 0)
    assert ([dialog.peer.id for dialog in pinned.dialogs], pinned.dialogs[0].pinned_order) == ([CLARA], 4)
    assert (await store.dialogs.page(ANNA)).total == 3


async def test_for_peers_keeps_their_order(store: Store) -> None:
    for other in (BORIS, CLARA):
        await send(store, ANNA, other)
    peers = [Peer.user(CLARA), Peer.user(999), Peer.user(BORIS), Peer.user(CLARA)]
    page = await store.dialogs.for_peers(ANNA, peers)
    assert [dialog.peer.id for dialog in page.dialogs] == [CLARA, BORIS]
    assert {box.peer.id for box in page.top_boxes.values()} == {CLARA, BORIS}


async def test_unread_total(store: Store) -> None:
    assert (await store.updates.state(ANNA)).unread_count == 0
    for other in (BORIS, CLARA, CLARA):
        await send(store, other, ANNA)
    assert (await store.updates.state(ANNA)).unread_count == 3
