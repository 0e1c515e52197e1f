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
from telesrv.store.codes import CodeRules

PHONE = "15550001"
KEY = -77
RULES = CodeRules()


def wrong(made: LoginCode) -> str:
    return f"{(int(made.code) + 1) % 100_000:05d}"


async def refused(store: Store, made: LoginCode, code: str, key: int = KEY) -> type[BaseException] | None:
    try:
        await store.codes.check(PHONE, made.phone_code_hash, code, key)
    except (CodeInvalid, CodeExpired, FloodWait) as error:
        return type(error)
    return None


async def test_a_right_code_may_be_repeated_until_it_is_consumed_once(store: Store, clock: FakeClock) -> None:
    made = await store.codes.create(PHONE, KEY)
    assert made.length == 5
    assert made.code.isdigit()
    assert made.expires_at == int(clock.time()) + 300
    assert not await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    assert not await store.codes.consume(PHONE, made.phone_code_hash, KEY)
    for _ in range(8):
        await store.codes.check(PHONE, made.phone_code_hash, made.code, KEY)
    assert await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    outcomes = await asyncio.gather(
        *(store.codes.consume(PHONE, made.phone_code_hash, KEY) for _ in range(5))
    )
    assert outcomes.count(True) == 1
    assert not await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    assert await refused(store, made, made.code) is CodeExpired


async def test_five_wrong_tries_use_a_code_up(store: Store) -> None:
    made = await store.codes.create(PHONE, KEY)
    outcomes = [await refused(store, made, wrong(made)) for _ in range(6)]
    assert outcomes == [CodeInvalid] * 5 + [CodeExpired]
    assert await refused(store, made, made.code) is CodeExpired


async def test_many_tries_at_once_are_no_more_than_five(store: Store) -> None:
    made = await store.codes.create(PHONE, KEY)
    outcomes = await asyncio.gather(*(refused(store, made, wrong(made)) for _ in range(40)))
    assert outcomes.count(CodeInvalid) == 5
    assert outcomes.count(CodeExpired) == 35


async def test_a_code_expires_and_so_does_what_it_verified(store: Store, clock: FakeClock) -> None:
    late = await store.codes.create(PHONE, KEY)
    clock.advance(300)
    assert await refused(store, late, late.code) is CodeExpired
    made = await store.codes.create(PHONE, KEY)
    assert await refused(store, made, made.code) is None
    clock.advance(RULES.verified_s - 1)
    assert await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    clock.advance(1)
    assert not await store.codes.verified(PHONE, made.phone_code_hash, KEY)
    assert not await store.codes.consume(PHONE, made.phone_code_hash, KEY)


async def test_a_code_is_for_one_phone_key_and_hash(store: Store) -> None:
    made = await store.codes.create(PHONE, KEY)
    other = await store.codes.create("15550002", KEY)
    assert await refused(store, made, made.code, key=78) is CodeExpired
    assert await refused(store, other, made.code) is CodeExpired
    assert await refused(store, replace(made, phone_code_hash="\ud800"), made.code) is CodeExpired
    assert await refused(store, made, made.code + "\ud800\0") is CodeInvalid
    assert await refused(store, made, "") is CodeInvalid
    assert await refused(store, made, "\u0661" * 5) is CodeInvalid
    assert await refused(store, made, made.code) is CodeExpired, "wrong hashes use tries up too"


async def test_a_new_code_replaces_the_old_one_of_the_same_key_only(store: Store) -> None:
    mine = await store.codes.create(PHONE, KEY)
    foreign = await store.codes.create(PHONE, 99)
    newer = await store.codes.create(PHONE, KEY)
    assert newer.phone_code_hash != mine.phone_code_hash
    assert await refused(store, mine, mine.code) is CodeExpired
    assert await refused(store, newer, newer.code) is None
    assert await refused(store, foreign, foreign.code, key=99) is None


async def test_sending_again_keeps_the_hash_and_the_tries_used(store: Store) -> None:
    made = await store.codes.create(PHONE, KEY)
    for _ in range(4):
        await refused(store, made, wrong(made))
    again = await store.codes.resend(PHONE, made.phone_code_hash, KEY)
    assert again.phone_code_hash == made.phone_code_hash
    assert await refused(store, again, again.code) is None
    assert await refused(store, again, wrong(again)) is CodeInvalid
    assert await refused(store, again, again.code) is CodeExpired
    with pytest.raises(CodeExpired):
        await store.codes.resend(PHONE, made.phone_code_hash, KEY)


async def test_a_code_is_sent_again_three_times(store: Store) -> None:
    made = await store.codes.create(PHONE, KEY)
    with pytest.raises(CodeExpired):
        await store.codes.resend(PHONE, "other", KEY)
    for _ in range(3):
        await store.codes.resend(PHONE, made.phone_code_hash, KEY)
    with pytest.raises(CodeExpired):
        await store.codes.resend(PHONE, made.phone_code_hash, KEY)


async def test_a_cancelled_code_is_gone(store: Store) -> None:
    made = await store.codes.create(PHONE, KEY)
    assert not await store.codes.cancel(PHONE, "other", KEY)
    assert await store.codes.cancel(PHONE, made.phone_code_hash, KEY)
    assert not await store.codes.cancel(PHONE, made.phone_code_hash, KEY)
    assert await refused(store, made, made.code) is CodeExpired


async def test_codes_of_one_phone_and_of_one_key_are_limited(store: Store, clock: FakeClock) -> None:
    for n in range(RULES.sends_per_phone):
        await store.codes.create(PHONE, n)
    with pytest.raises(FloodWait) as flood:
        await store.codes.create(PHONE, 1000)
    assert flood.value.wait_s == RULES.send_period_s
    for n in range(RULES.sends_per_key):
        await store.codes.create(f"1666{n:04d}", 2000)
    with pytest.raises(FloodWait):
        await store.codes.create("17770000", 2000)
    clock.advance(RULES.send_period_s)
    await store.codes.create(PHONE, 2000)


async def test_wrong_guesses_of_one_phone_are_limited_over_all_its_codes(store: Store) -> None:
    outcomes = []
    for key in range(5):
        made = await store.codes.create(PHONE, key)
        outcomes += [await refused(store, made, wrong(made), key) for _ in range(5)]
    assert outcomes == [CodeInvalid] * RULES.wrong_guesses_per_phone + [FloodWait] * 5
    last = await store.codes.create(PHONE, 6)
    assert await refused(store, last, last.code, key=6) is FloodWait


async def test_right_codes_do_not_count_as_guesses(store: Store) -> None:
    made = await store.codes.create(PHONE, KEY)
    for _ in range(RULES.wrong_guesses_per_phone + 5):
        assert await refused(store, made, made.code) is None


async def test_redis_holds_neither_code_nor_hash(store: Store, redis_prefix: str) -> None:
    made = await store.codes.create(PHONE, KEY)
    stored = await store.redis.client.hgetall(f"{redis_prefix}code:{{{PHONE}}}:{KEY}")
    text = b" ".join([*stored.keys(), *stored.values()]).decode()
    assert made.phone_code_hash not in text
    assert made.code not in text.split()
    assert made.code not in repr(made)
    assert made.phone_code_hash not in repr(made)


@pytest.fixture
async def dev_store(store_config: StoreConfig) -> AsyncIterator[Store]:
    opened = await Store.open(replace(store_config, dev_auth_code="12345"))
    yield opened
    await opened.close()


async def test_a_development_code_is_always_the_same(dev_store: Store) -> None:
    made = await dev_store.codes.create(PHONE, KEY)
    assert made.code == "12345"
    assert await refused(dev_store, made, "54321") is CodeInvalid
    assert await refused(dev_store, made, "12345") is None
    for key in range(RULES.sends_per_phone + 5):
        await dev_store.codes.create(PHONE, key)
