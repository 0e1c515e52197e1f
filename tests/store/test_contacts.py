"""Address books and blocks, and what both sides and all devices hear of them."""

from __future__ import annotations

import asyncio

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.contacts import LOOKUPS_PER_DAY, MAX_IMPORT
from telesrv.domain.errors import PeerInvalid
from telesrv.domain.messages import Entity
from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.privacy import PrivacyKey, Rule, RuleKind
from telesrv.domain.updates import EventKind
from telesrv.domain.users import Contact, ImportOutcome, PhoneContact
from telesrv.store import Store

NO_BAR = {"add_contact": False, "block_contact": False, "share_contact": False}
STRANGERS_BAR = NO_BAR | {"add_contact": True, "block_contact": True}


async def people(store: Store, *names: str) -> list[int]:
    return [
        (await store.accounts.sign_up(f"1555000{n}", name, "Stone")).user_id for n, name in enumerate(names)
    ]


async def log(store: Store, user_id: int) -> list[tuple[EventKind, int, object]]:
    """The log after its first noop: kind, peer id, payload; the pts have no hole."""
    rows = await store.pool.fetch(
        "SELECT pts, kind, peer_id, payload FROM user_update_events WHERE user_id = $1 ORDER BY pts", user_id
    )
    assert [row["pts"] for row in rows] == list(range(1, len(rows) + 1))
    return [(EventKind(row["kind"]), row["peer_id"], row["payload"]) for row in rows][1:]


async def test_import_adds_those_who_have_an_account(store: Store) -> None:
    ann, bob, _ = await people(store, "Ann", "Bob", "Cid")
    outcome = await store.contacts.import_(
        ann,
        [
            PhoneContact(10, "+1 (555) 000-1", "Bobby", "B"),
            PhoneContact(11, "15559999", "Nobody", ""),
            PhoneContact(12, "not a number", "Bad", ""),
            PhoneContact(13, "15550000", "Myself", ""),
        ],
    )
    assert outcome == ImportOutcome(((bob, 10),))
    assert await store.contacts.list(ann) == [Contact(ann, bob, "Bobby", "B", "15550001")]
    assert await store.contacts.list(bob) == []
    assert await log(store, ann) == [
        (EventKind.CONTACTS_RESET, 0, {"user_ids": [bob]}),
        (
            EventKind.PEER_SETTINGS,
            bob,
            {"add_contact": False, "block_contact": False, "share_contact": False},
        ),
    ]
    assert await log(store, bob) == []


async def test_the_same_import_again_writes_nothing(store: Store) -> None:
    ann, bob = await people(store, "Ann", "Bob")
    for _ in range(3):
        outcome = await store.contacts.import_(ann, [PhoneContact(1, "15550001", "Bob", "")])
        assert outcome.imported == ((bob, 1),)
    assert len(await log(store, ann)) == 2


async def test_notes_are_imported_with_their_entries(store: Store) -> None:
    ann, bob, cid = await people(store, "Ann", "Bob", "Cid")
    entries = [
        PhoneContact(0, "15550001", "Bob", "", "tall", (Entity("bold", 0, 4),)),
        PhoneContact(0, "15550002", "Cid", ""),
    ]
    for _ in range(2):
        await store.contacts.import_(ann, entries)
        views = await store.users.views(ann, [bob, cid])
        notes = [view.contact.note for view in views.values() if view.contact is not None]
        assert sorted(notes) == ["", "tall"]
    written = "SELECT count(DISTINCT xmin::text) FROM user_update_events WHERE user_id = $1 AND pts > 1"
    assert await store.pool.fetchval(written, ann) == 1


async def test_one_client_id_twice_is_two_entries(store: Store) -> None:
    ann, bob, cid = await people(store, "Ann", "Bob", "Cid")
    outcome = await store.contacts.import_(
        ann, [PhoneContact(0, "15550001", "Bob", ""), PhoneContact(0, "15550002", "Cid", "")]
    )
    assert outcome.imported == ((bob, 0), (cid, 0))
    assert {entry.first_name for entry in await store.contacts.list(ann)} == {"Bob", "Cid"}


async def test_an_import_looks_at_a_bounded_number(store: Store, clock: FakeClock) -> None:
    ann, bob = await people(store, "Ann", "Bob")
    many = [PhoneContact(n, f"1666{n:06d}", "X", "") for n in range(MAX_IMPORT)]
    outcome = await store.contacts.import_(ann, [*many, PhoneContact(-1, "15550001", "Bob", "")])
    assert outcome == ImportOutcome((), (-1,))
    for _ in range(LOOKUPS_PER_DAY // MAX_IMPORT - 1):
        assert (await store.contacts.import_(ann, many)).retry == ()
    assert await store.contacts.import_(ann, [PhoneContact(7, "15550001", "Bob", "")]) == ImportOutcome(
        (), (7,)
    )
    assert await store.contacts.import_(bob, [PhoneContact(7, "15550000", "Ann", "")]) == ImportOutcome(
        ((ann, 7),)
    )
    clock.advance(86_400)
    assert (await store.contacts.import_(ann, [PhoneContact(7, "15550001", "Bob", "")])).imported == (
        (bob, 7),
    )


async def test_contacts_become_and_cease_to_be_mutual_on_both_sides(store: Store) -> None:
    ann, bob = await people(store, "Ann", "Bob")
    await store.contacts.add(ann, bob, "Bobby", "")
    await store.contacts.add(bob, ann, "Annie", "", share_phone=True)
    assert await store.contacts.list(ann) == [Contact(ann, bob, "Bobby", "", "", mutual=True)]
    assert await store.contacts.list(bob) == [Contact(bob, ann, "Annie", "", "", mutual=True)]
    assert (await log(store, ann))[2:] == [(EventKind.CONTACTS_RESET, 0, {"user_ids": [bob]})]
    assert await store.contacts.delete(ann, [bob, bob, 999]) == [bob]
    assert await store.contacts.list(ann) == []
    assert await store.contacts.list(bob) == [Contact(bob, ann, "Annie", "", "")]
    assert (await log(store, bob))[2:] == [(EventKind.CONTACTS_RESET, 0, {"user_ids": [ann]})]
    assert (await log(store, ann))[-1] == (
        EventKind.PEER_SETTINGS,
        bob,
        {"add_contact": True, "block_contact": True, "share_contact": False},
    )
    assert await store.contacts.delete(ann, [bob]) == []
    assert await store.contacts.delete(ann, []) == []


async def test_two_who_add_each_other_at_once_are_mutual(store: Store) -> None:
    ids = await people(store, "Ann", "Bob", "Cid", "Dan")
    pairs = [(a, b) for a in ids for b in ids if a != b]
    await asyncio.gather(*(store.contacts.add(a, b, f"{b}", "") for a, b in pairs))
    for owner in ids:
        book = await store.contacts.list(owner)
        assert [entry.contact_user_id for entry in book] == sorted(set(ids) - {owner})
        assert all(entry.mutual for entry in book)
        await log(store, owner)


async def test_adding_and_deleting_at_once_leaves_both_sides_of_one_mind(store: Store) -> None:
    ann, bob = await people(store, "Ann", "Bob")
    await store.contacts.add(bob, ann, "Ann", "")
    await asyncio.gather(
        *(store.contacts.add(ann, bob, "Bob", "") for _ in range(5)),
        *(store.contacts.delete(ann, [bob]) for _ in range(5)),
        *(store.contacts.delete(bob, [ann]) for _ in range(3)),
    )
    rows = await store.pool.fetch("SELECT owner_user_id, listed, listed_by FROM contacts")
    flags = {row["owner_user_id"]: (row["listed"], row["listed_by"]) for row in rows}
    assert flags[ann] == flags[bob][::-1]
    await log(store, ann)
    await log(store, bob)


async def test_who_may_not_be_added(store: Store) -> None:
    (ann,) = await people(store, "Ann")
    for user_id in (ann, SERVICE_USER_ID, 12345, -1):
        with pytest.raises(PeerInvalid):
            await store.contacts.add(ann, user_id, "X", "")
    assert await log(store, ann) == []


async def test_renaming_keeps_the_number_and_says_nothing_of_the_bar(store: Store) -> None:
    ann, bob = await people(store, "Ann", "Bob")
    await store.contacts.import_(ann, [PhoneContact(1, "15550001", "Bob", "")])
    await store.contacts.add(ann, bob, "Robert", "B")
    assert await store.contacts.list(ann) == [Contact(ann, bob, "Robert", "B", "15550001")]
    assert [kind for kind, _, _ in await log(store, ann)] == [
        EventKind.CONTACTS_RESET,
        EventKind.PEER_SETTINGS,
        EventKind.CONTACTS_RESET,
    ]


async def test_search_finds_contacts_by_name_and_others_by_username(store: Store) -> None:
    ann, bob, cid, dan = await people(store, "Ann", "Bob", "Cid", "Dan")
    await store.contacts.import_(ann, [PhoneContact(1, "15550001", "Борис", "Каменный")])
    await store.profiles.set_username(bob, "stone_bob")
    await store.profiles.set_username(cid, "stone_cid")
    await store.profiles.set_username(ann, "stone_ann")
    await store.profiles.set_username(dan, "Stonier")

    async def search(q: str, limit: int = 10) -> tuple[list[int], list[int]]:
        return await store.contacts.search(ann, q, limit)

    assert await search("борис") == ([bob], [])
    assert await search("Камен") == ([bob], [])
    assert await search("рис") == ([], [])
    assert await search("Борис  каменный") == ([bob], [])
    assert await search("@Stone_") == ([bob], [cid])
    assert await search("ston") == ([bob], [cid, dan])
    assert await search("stone", 1) == ([bob], [cid])
    assert await search("+1555000") == ([bob], [])
    assert await search("15550002") == ([], [])
    for nothing in ("", "  ", "%", "_", "~", "stone%", "\0"):
        assert await search(nothing) == ([], [])
    assert await search("stone", 0) == ([], [])


async def test_blocks_are_the_owners_and_told_once(store: Store, clock: FakeClock) -> None:
    ann, bob, cid = await people(store, "Ann", "Bob", "Cid")
    first = int(clock.time())
    assert await store.blocks.block(ann, Peer.user(bob))
    assert not await store.blocks.block(ann, Peer.user(bob))
    assert await store.blocks.has(ann, Peer.user(bob))
    assert not await store.blocks.has(bob, Peer.user(ann))
    clock.advance(5)
    assert await store.blocks.block(ann, Peer.user(cid))
    both = [(Peer.user(cid), first + 5), (Peer.user(bob), first)]
    assert await store.blocks.page(ann, 0, 10) == (both, 2)
    assert await store.blocks.page(ann, 1, 10) == (both[1:], 2)
    assert await store.blocks.page(ann, -1, -1) == ([], 2)
    assert await store.blocks.unblock(ann, Peer.user(bob))
    assert not await store.blocks.unblock(ann, Peer.user(bob))
    assert await store.blocks.page(ann, 0, 10) == (both[:1], 1)
    assert await log(store, ann) == [
        (EventKind.PEER_BLOCKED, bob, {"blocked": True}),
        (EventKind.PEER_SETTINGS, bob, NO_BAR),
        (EventKind.PEER_BLOCKED, cid, {"blocked": True}),
        (EventKind.PEER_SETTINGS, cid, NO_BAR),
        (EventKind.PEER_BLOCKED, bob, {"blocked": False}),
        (EventKind.PEER_SETTINGS, bob, STRANGERS_BAR),
    ]
    assert await log(store, bob) == []


async def test_a_bar_that_does_not_change_is_not_told(store: Store) -> None:
    ann, bob, cid = await people(store, "Ann", "Bob", "Cid")
    await store.contacts.add(ann, bob, "Bob", "", share_phone=True)
    assert await store.action_bars.hide(ann, cid)
    assert not await store.action_bars.hide(ann, cid)
    await store.privacy.set(ann, PrivacyKey.PHONE_NUMBER, (Rule(RuleKind.DISALLOW_ALL),))
    before = len(await log(store, ann))
    for user_id in (bob, cid):
        await store.blocks.block(ann, Peer.user(user_id))
    assert [kind for kind, _, _ in (await log(store, ann))[before:]] == [EventKind.PEER_BLOCKED] * 2
    await store.blocks.unblock(ann, Peer.user(cid))
    await store.contacts.add(ann, cid, "Cid", "")
    kind, peer_id, bar = (await log(store, ann))[-1]
    assert (kind, peer_id, bar) == (EventKind.PEER_SETTINGS, cid, NO_BAR | {"share_contact": True})


async def test_the_whole_block_list_is_set(store: Store) -> None:
    ann, bob, cid, dan = await people(store, "Ann", "Bob", "Cid", "Dan")
    await store.blocks.block(ann, Peer.user(bob))
    await store.blocks.block(ann, Peer.user(cid))
    before = len(await log(store, ann))
    await store.blocks.set(ann, [cid, dan, dan])
    assert {peer.id for peer, _ in (await store.blocks.page(ann, 0, 10))[0]} == {cid, dan}
    told = [(kind, peer_id) for kind, peer_id, _ in (await log(store, ann))[before:]]
    assert told == [
        (EventKind.PEER_BLOCKED, bob),
        (EventKind.PEER_SETTINGS, bob),
        (EventKind.PEER_BLOCKED, dan),
        (EventKind.PEER_SETTINGS, dan),
    ]
    for wrong in (ann, 1, SERVICE_USER_ID):
        with pytest.raises(PeerInvalid):
            await store.blocks.set(ann, [bob, wrong])
    await store.blocks.set(ann, [])
    assert await store.blocks.page(ann, 0, 10) == ([], 0)


async def test_a_note_is_the_owners_and_goes_with_the_entry(store: Store) -> None:
    ann, bob = await people(store, "Ann", "Bob")
    with pytest.raises(PeerInvalid):
        await store.contacts.set_note(ann, bob, "tall")
    await store.contacts.add(bob, ann, "Ann", "")
    await store.contacts.add(ann, bob, "Bob", "", note="tall", note_entities=[Entity("bold", 0, 4)])
    assert (await log(store, ann))[-1][:2] == (EventKind.USER_CHANGED, bob)
    [contact] = await store.contacts.list(ann)
    assert (contact.note, contact.note_entities) == ("tall", (Entity("bold", 0, 4),))
    before = await log(store, ann)
    await store.contacts.add(ann, bob, "Bob", "", note="tall", note_entities=[Entity("bold", 0, 4)])
    await store.contacts.set_note(ann, bob, "tall", [Entity("bold", 0, 4)])
    assert await log(store, ann) == before
    await store.contacts.set_note(ann, bob, "small")
    assert (await store.contacts.list(ann))[0].note == "small"
    assert [entry.note for entry in await store.contacts.list(bob)] == [""]
    await store.contacts.add(ann, bob, "Bobby", "")
    assert (await store.contacts.list(ann))[0].note == "small"
    await store.contacts.set_note(ann, bob, "")
    assert (await store.contacts.list(ann))[0].note == ""
    await store.contacts.set_note(ann, bob, "again")
    await store.contacts.delete(ann, [bob])
    await store.contacts.add(ann, bob, "Bob", "")
    assert (await store.contacts.list(ann))[0].note == ""


async def test_who_may_not_be_blocked(store: Store) -> None:
    (ann,) = await people(store, "Ann")
    for peer in (
        Peer.user(ann),
        Peer.user(SERVICE_USER_ID),
        Peer.user(1),
        Peer(PeerType.CHANNEL, 5),
    ):
        with pytest.raises(PeerInvalid):
            await store.blocks.block(ann, peer)


async def test_blocking_at_once_changes_once(store: Store) -> None:
    ann, bob = await people(store, "Ann", "Bob")
    outcomes = await asyncio.gather(*(store.blocks.block(ann, Peer.user(bob)) for _ in range(6)))
    assert outcomes.count(True) == 1
    kinds = [kind for kind, _, _ in await log(store, ann)]
    assert kinds.count(EventKind.PEER_BLOCKED) == 1
    assert set(kinds) <= {EventKind.PEER_BLOCKED, EventKind.PEER_SETTINGS, EventKind.NOOP}
