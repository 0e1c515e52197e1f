"""Login codes: what an attacker may try, and what an honest client may repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import CodeExpired, CodeInvalid, FloodWait
from telesrv.domain.users import LoginCode
from telesrv.store import Store, StoreConfig
from telesrv.store.codes import Asker, CodeRules, network_of

PHONE = "15550001"
KEY = -77
RULES = CodeRules()


def wrong(made: LoginCode) -> str:
    return f"{(int(made.code) + 1) % 100_000:05d}"


async def refused(
    store: Store, made: LoginCode, code: str, key: int = KEY, asker: Asker | None = None
) -> type[BaseException] | None:
    try:
        await store.codes.check(PHONE, made.phone_code_hash, code, asker or Asker(key))
    except (CodeInvalid, CodeExpired, FloodWait) as error:
        return type(error)
    return None


async def test_a_right_code_may_be_repeated_until_it_is_consumed_once(store: Store, clock: FakeClock) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    assert made.length == 5
    assert made.code.isdigit()
    assert made.expires_at == int(clock.time()) + 300
    assert not await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    assert not await store.codes.consume(PHONE, made.phone_code_hash, KEY)
    for _ in range(8):
        await store.codes.check(PHONE, made.phone_code_hash, made.code, Asker(KEY))
    assert await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    outcomes = await asyncio.gather(
        *(store.codes.consume(PHONE, made.phone_code_hash, KEY) for _ in range(5))
    )
    assert outcomes.count(True) == 1
    assert not await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    assert await refused(store, made, made.code) is CodeExpired


async def test_five_wrong_tries_use_a_code_up(store: Store) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    outcomes = [await refused(store, made, wrong(made)) for _ in range(6)]
    assert outcomes == [CodeInvalid] * 5 + [CodeExpired]
    assert await refused(store, made, made.code) is CodeExpired


async def test_many_tries_at_once_are_no_more_than_five(store: Store) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    outcomes = await asyncio.gather(*(refused(store, made, wrong(made)) for _ in range(40)))
    assert outcomes.count(CodeInvalid) == 5
    assert outcomes.count(CodeExpired) == 35


async def test_a_code_expires_and_so_does_what_it_verified(store: Store, clock: FakeClock) -> None:
    late = await store.codes.create(PHONE, Asker(KEY))
    clock.advance(300)
    assert await refused(store, late, late.code) is CodeExpired
    made = await store.codes.create(PHONE, Asker(KEY))
    assert await refused(store, made, made.code) is None
    clock.advance(RULES.verified_s - 1)
    assert await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    clock.advance(1)
    assert not await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    assert not await store.codes.consume(PHONE, made.phone_code_hash, KEY)


async def test_a_code_is_for_one_phone_key_and_hash(store: Store) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    other = await store.codes.create("15550002", Asker(KEY))
    assert await refused(store, made, made.code, key=78) is CodeExpired
    assert await refused(store, other, made.code) is CodeExpired
    assert await refused(store, replace(made, phone_code_hash="\ud800"), made.code) is CodeExpired
    assert await refused(store, made, made.code + "\ud800\0") is CodeInvalid
    assert await refused(store, made, "") is CodeInvalid
    assert await refused(store, made, "\u0661" * 5) is CodeInvalid
    assert await refused(store, made, made.code) is CodeExpired, "wrong hashes use tries up too"


async def test_a_new_code_replaces_the_old_one_of_the_same_key_only(store: Store) -> None:
    mine = await store.codes.create(PHONE, Asker(KEY))
    foreign = await store.codes.create(PHONE, Asker(99))
    newer = await store.codes.create(PHONE, Asker(KEY))
    assert newer.phone_code_hash != mine.phone_code_hash
    assert await refused(store, mine, mine.code) is CodeExpired
    assert await refused(store, newer, newer.code) is None
    assert await refused(store, foreign, foreign.code, key=99) is None


async def test_sending_again_keeps_the_hash_and_the_tries_used(store: Store) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    for _ in range(4):
        await refused(store, made, wrong(made))
    again = await store.codes.resend(PHONE, made.phone_code_hash, Asker(KEY))
    assert again.phone_code_hash == made.phone_code_hash
    assert await refused(store, again, again.code) is None
    assert await refused(store, again, wrong(again)) is CodeInvalid
    assert await refused(store, again, again.code) is CodeExpired
    with pytest.raises(CodeExpired):
        await store.codes.resend(PHONE, made.phone_code_hash, Asker(KEY))


async def test_a_code_is_sent_again_three_times(store: Store) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    with pytest.raises(CodeExpired):
        await store.codes.resend(PHONE, "other", Asker(KEY))
    for _ in range(3):
        await store.codes.resend(PHONE, made.phone_code_hash, Asker(KEY))
    with pytest.raises(CodeExpired):
        await store.codes.resend(PHONE, made.phone_code_hash, Asker(KEY))


async def test_a_cancelled_code_is_gone(store: Store) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    assert not await store.codes.cancel(PHONE, "other", KEY)
    assert await store.codes.cancel(PHONE, made.phone_code_hash, KEY)
    assert not await store.codes.cancel(PHONE, made.phone_code_hash, KEY)
    assert await refused(store, made, made.code) is CodeExpired


async def floods(store: Store, phone: str, asker: Asker) -> bool:
    """Tells whether one more code is refused."""
    try:
        await store.codes.create(phone, asker)
    except FloodWait:
        return True
    return False


def network(number: int) -> str:
    return f"198.51.100.{number}"


async def test_codes_of_one_key_are_limited_over_all_phones(store: Store, clock: FakeClock) -> None:
    for n in range(RULES.sends_per_key):
        await store.codes.create(f"1666{n:04d}", Asker(KEY, network(n)))
    assert await floods(store, "17770000", Asker(KEY, network(1)))
    clock.advance(RULES.send_period_s)
    assert not await floods(store, "17770000", Asker(KEY, network(1)))


async def test_one_network_uses_up_its_own_part_of_a_phone_whatever_its_keys(
    store: Store, clock: FakeClock
) -> None:
    outcomes = [await floods(store, PHONE, Asker(key, network(1))) for key in range(100)]
    assert outcomes == [False] * RULES.sends_per_network + [True] * (100 - RULES.sends_per_network)
    assert not await floods(store, PHONE, Asker(KEY, network(2))), "the owner, from elsewhere"
    clock.advance(RULES.send_period_s)
    assert not await floods(store, PHONE, Asker(1, network(1)))


async def test_many_networks_use_up_what_strangers_may_and_not_what_the_owner_may(store: Store) -> None:
    asked = 0
    for key in range(RULES.sends_per_phone * 2):
        asked += not await floods(store, PHONE, Asker(key, network(key % 50)))
    assert asked == RULES.sends_per_phone
    assert await floods(store, PHONE, Asker(KEY, network(200)))
    for _ in range(RULES.sends_per_network):
        assert not await floods(store, PHONE, Asker(KEY, network(201), known=True))
    assert await floods(store, PHONE, Asker(KEY, network(201), known=True)), "not without end"


async def test_what_goes_by_the_sender_is_limited_for_a_phone(store: Store, clock: FakeClock) -> None:
    stranger, owner = Asker(KEY, network(1)), Asker(KEY + 1, network(2), known=True)
    for asker in (stranger, owner):
        for _ in range(RULES.texts_per_phone):
            await store.codes.text(PHONE, asker)
        with pytest.raises(FloodWait) as flood:
            await store.codes.text(PHONE, asker)
        assert flood.value.wait_s == RULES.send_period_s
    await store.codes.text("15550002", stranger)


async def test_five_networks_are_needed_to_use_up_the_texts(store: Store) -> None:
    texts = 0
    for key in range(4 * RULES.sends_per_network):
        asker = Asker(key, network(key % 4))
        await store.codes.create(PHONE, asker)
        await store.codes.text(PHONE, asker)
        texts += 1
    assert texts == 4 * RULES.sends_per_network < RULES.texts_per_phone
    await store.codes.create(PHONE, Asker(KEY, network(9)))
    await store.codes.text(PHONE, Asker(KEY, network(9)))


async def guess(store: Store, asker: Asker) -> list[type[BaseException] | None]:
    """Returns what becomes of five wrong guesses of a code of one's own."""
    made = await store.codes.create(PHONE, asker)
    return [await refused(store, made, wrong(made), asker=asker) for _ in range(5)]


async def test_wrong_guesses_are_limited_for_each_network_and_for_all_strangers(store: Store) -> None:
    outcomes: list[type[BaseException] | None] = []
    for key in range(4):
        outcomes += await guess(store, Asker(key, network(1)))
    own = RULES.wrong_guesses_per_network
    assert outcomes == [CodeInvalid] * own + [FloodWait] * (20 - own)
    outcomes = []
    for key in range(10, 15):
        outcomes += await guess(store, Asker(key, network(key)))
    left = RULES.wrong_guesses_per_phone - own
    assert outcomes == [CodeInvalid] * left + [FloodWait] * (25 - left)
    for asker, refusal in ((Asker(20, network(20)), FloodWait), (Asker(21, network(21), known=True), None)):
        made = await store.codes.create(PHONE, asker)
        assert await refused(store, made, made.code, asker=asker) is refusal


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1::/56"),
        ("2001:db8:1:2:bbbb::9", "2001:db8:1::/56"),
        ("", ""),
        ("somewhere", ""),
    ],
)
def test_a_network_is_what_one_subscriber_has(address: str, expected: str) -> None:
    assert network_of(address) == expected


async def test_right_codes_do_not_count_as_guesses(store: Store) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    for _ in range(RULES.wrong_guesses_per_phone + 5):
        assert await refused(store, made, made.code) is None


async def test_redis_holds_neither_code_nor_hash(store: Store, redis_prefix: str) -> None:
    made = await store.codes.create(PHONE, Asker(KEY))
    stored = await store.redis.client.hgetall(f"{redis_prefix}code:{{{PHONE}}}:{KEY}")
    text = b" ".join([*stored.keys(), *stored.values()]).decode()
    assert made.phone_code_hash not in text
    assert made.code not in text.split()
    # The number and the time have digits too: what is shown is the same whatever the code and the hash are.
    assert repr(made) == repr(replace(made, code="", phone_code_hash=""))


@pytest.fixture
async def dev_store(store_config: StoreConfig) -> AsyncIterator[Store]:
    opened = await Store.open(replace(store_config, dev_auth_code="12345"))
    yield opened
    await opened.close()


async def test_a_development_code_is_always_the_same(dev_store: Store) -> None:
    made = await dev_store.codes.create(PHONE, Asker(KEY))
    assert made.code == "12345"
    assert await refused(dev_store, made, "54321") is CodeInvalid
    assert await refused(dev_store, made, "12345") is None
    for key in range(RULES.sends_per_phone + 5):
        await dev_store.codes.create(PHONE, Asker(key))
