"""Privacy rules that are set by several devices at once."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from telesrv.domain.privacy import DEFAULTS, PrivacyKey, Rule, RuleKind, Rules, allows, rules_from_json
from telesrv.domain.updates import EventKind
from telesrv.store import Store
from tests.store.world import ANNA, BORIS, add_users, log_of, send

CONTACTS: Rules = (Rule(RuleKind.ALLOW_CONTACTS),)
EVERYBODY: Rules = (Rule(RuleKind.ALLOW_ALL),)
NOBODY: Rules = (Rule(RuleKind.DISALLOW_ALL),)


async def test_every_change_is_told_to_who_sees_it(store: Store) -> None:
    await add_users(store, ANNA, BORIS)
    await send(store, BORIS, ANNA)
    key = PrivacyKey.ABOUT
    for _ in range(20):
        await store.privacy.set(ANNA, key, CONTACTS)
        at_once = (EVERYBODY, NOBODY, CONTACTS)
        await asyncio.gather(*(store.privacy.set(ANNA, key, rules) for rules in at_once))
    said = [
        rules_from_json(event.payload["rules"])
        for event in await log_of(store, ANNA)
        if event.kind == EventKind.PRIVACY and event.payload is not None
    ]
    shown = [allows(rules, BORIS, contact=False) for rules in (DEFAULTS[key], *said)]
    told = [event for event in await log_of(store, BORIS) if event.kind == EventKind.USER_CHANGED]
    assert len(told) == sum(before != after for before, after in pairwise(shown))
    assert await store.privacy.get(ANNA, key) == said[-1]
