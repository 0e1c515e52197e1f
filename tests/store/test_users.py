"""What one account sees of others, read in one batch."""

from __future__ import annotations

from telesrv.clock import FakeClock
from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.domain.privacy import PrivacyKey, Rule, RuleKind, normalized
from telesrv.domain.users import Contact, PhoneContact, Presence, UserView
from telesrv.store import Store


async def people(store: Store, count: int) -> list[int]:
    return [(await store.accounts.sign_up(f"1555{n:04d}", f"U{n}")).user_id for n in range(count)]


async def view(store: Store, viewer: int, user_id: int) -> UserView:
    return (await store.users.views(viewer, [user_id]))[user_id]


async def test_a_stranger_sees_the_public_part(store: Store) -> None:
    ann, bob = await people(store, 2)
    seen = await view(store, ann, bob)
    assert seen.user == await store.users.get(bob)
    hidden = {PrivacyKey.PHONE_NUMBER, PrivacyKey.PHONE_P2P, PrivacyKey.BIRTHDAY, PrivacyKey.NO_PAID_MESSAGES}
    assert seen == UserView(seen.user, ann, allowed=frozenset(PrivacyKey) - hidden)
    own = await view(store, ann, ann)
    assert own.is_self
    assert own.phone_visible


async def test_who_exists_is_seen_and_nobody_else(store: Store) -> None:
    ann, bob = await people(store, 2)
    await store.pool.execute(
        "UPDATE users SET deleted = true, phone = '', first_name = '' WHERE user_id = $1", bob
    )
    views = await store.users.views(ann, [bob, SERVICE_USER_ID, 12345, -9, bob, 2**62])
    assert set(views) == {bob, SERVICE_USER_ID}
    assert views[bob].user.deleted
    assert not views[bob].phone_visible
    assert not views[SERVICE_USER_ID].phone_visible
    assert await store.users.views(ann, []) == {}


async def test_names_are_the_viewers_own(store: Store) -> None:
    ann, bob = await people(store, 2)
    await store.contacts.add(ann, bob, "Bobby", "Tables")
    seen = await view(store, ann, bob)
    assert (seen.first_name, seen.last_name) == ("Bobby", "Tables")
    assert seen.contact == Contact(ann, bob, "Bobby", "Tables", "")
    assert (await view(store, bob, ann)).first_name == "U0"
    await store.contacts.delete(ann, [bob])
    assert (await view(store, ann, bob)).contact is None
    assert (await view(store, ann, bob)).first_name == "U1"


async def test_a_phone_is_seen_by_those_who_know_it_and_those_it_is_shared_with(store: Store) -> None:
    ann, bob, cid = await people(store, 3)
    await store.contacts.import_(ann, [PhoneContact(1, "15550001", "Bob", "")])
    assert (await view(store, ann, bob)).phone_visible
    assert (await view(store, bob, ann)).phone_visible, "contacts see it by default"
    assert (await view(store, ann, bob)).phone_shared
    await store.contacts.add(ann, cid, "Cid", "")
    assert not (await view(store, ann, cid)).phone_visible
    assert (await view(store, cid, ann)).phone_visible, "contacts see it by default"
    nobody = normalized([Rule(RuleKind.DISALLOW_ALL)])
    await store.privacy.set(ann, PrivacyKey.PHONE_NUMBER, nobody)
    assert not (await view(store, cid, ann)).phone_visible
    assert not (await view(store, bob, ann)).phone_visible, "to import somebody shares nothing by itself"
    assert (await view(store, ann, cid)).phone_needs_exception
    await store.contacts.add(ann, cid, "Cid", "", share_phone=True)
    assert (await view(store, cid, ann)).phone_visible
    assert not (await view(store, ann, cid)).phone_needs_exception
    assert not (await view(store, ann, cid)).phone_visible
    await store.contacts.delete(ann, [bob, cid])
    assert not (await view(store, bob, ann)).phone_visible
    assert not (await view(store, cid, ann)).phone_visible
    assert not (await view(store, ann, bob)).phone_visible


async def test_presence_is_hidden_from_whom_one_blocked(store: Store, clock: FakeClock) -> None:
    ann, bob = await people(store, 2)
    until = int(clock.time()) + 60
    await store.presence.set_online(ann, until)
    await store.presence.set_online(bob, until)
    await store.blocks.block(ann, Peer.user(bob))
    seen_by_bob, seen_by_ann = await view(store, bob, ann), await view(store, ann, bob)
    assert seen_by_bob.presence == Presence()
    assert not seen_by_bob.blocked
    assert seen_by_ann.presence == Presence(online_until=until)
    assert seen_by_ann.blocked


async def test_the_number_of_statements_does_not_grow(store: Store) -> None:
    ids = await people(store, 30)
    reads: list[str] = []
    fetch = store.pool.fetch

    async def counting(sql: str, *args: object) -> list[object]:
        reads.append(sql)
        return await fetch(sql, *args)

    store.pool.fetch = counting  # type: ignore[method-assign]
    await store.users.views(ids[0], ids[:2])
    few = len(reads)
    reads.clear()
    assert len(await store.users.views(ids[0], ids)) == 30
    assert len(reads) == few == 4
    reads.clear()
    views = await store.users.views_many(dict.fromkeys(ids, ids))
    assert len(reads) == few
    assert views[ids[1]] == await store.users.views(ids[1], ids)
