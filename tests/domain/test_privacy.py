"""What privacy rules mean."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv.domain.privacy import (
    DEFAULTS,
    PrivacyKey,
    Rule,
    RuleKind,
    allowed_keys,
    allows,
    normalized,
    rules_from_json,
    rules_to_json,
)
from telesrv.domain.users import DAY_S, Presence, Seen

ANN, BOB = 1, 2
CONTACTS, EVERYBODY, NOBODY = (
    Rule(kind) for kind in (RuleKind.ALLOW_CONTACTS, RuleKind.ALLOW_ALL, RuleKind.DISALLOW_ALL)
)


def test_the_general_rule_decides_for_everybody_else() -> None:
    assert allows((EVERYBODY,), ANN, contact=False)
    assert not allows((NOBODY,), ANN, contact=True)
    assert allows((CONTACTS, NOBODY), ANN, contact=True)
    assert not allows((CONTACTS, NOBODY), ANN, contact=False)
    assert not allows((Rule(RuleKind.DISALLOW_CONTACTS), EVERYBODY), ANN, contact=True)
    assert not allows((), ANN, contact=True)


def test_a_named_account_comes_before_contacts_and_these_before_everybody() -> None:
    never = normalized([EVERYBODY, Rule(RuleKind.DISALLOW_USERS, frozenset({ANN}))])
    always = normalized([NOBODY, Rule(RuleKind.ALLOW_USERS, frozenset({ANN}))])
    assert [allows(never, user, contact=True) for user in (ANN, BOB)] == [False, True]
    assert [allows(always, user, contact=True) for user in (ANN, BOB)] == [True, False]


@given(st.permutations([CONTACTS, NOBODY, Rule(RuleKind.ALLOW_USERS, frozenset({ANN}))]))
def test_the_order_of_setting_says_nothing(rules: list[Rule]) -> None:
    assert [rule.kind for rule in normalized(rules)] == sorted(rule.kind for rule in rules)


def test_nobody_else_when_there_is_no_general_rule() -> None:
    assert normalized([]) == (NOBODY,)
    assert normalized([CONTACTS]) == (CONTACTS, NOBODY)


@pytest.mark.parametrize(
    "rules", [[EVERYBODY, NOBODY], [CONTACTS, Rule(RuleKind.DISALLOW_CONTACTS)], [NOBODY, NOBODY]]
)
def test_contradictions_are_refused(rules: list[Rule]) -> None:
    with pytest.raises(ValueError, match="contradict"):
        normalized(rules)


def test_rules_are_stored_whole() -> None:
    for kinds in itertools.combinations(RuleKind, 2):
        rules = tuple(Rule(kind, frozenset({ANN, BOB})) for kind in kinds)
        assert rules_from_json(rules_to_json(rules)) == rules


def test_every_key_has_a_default() -> None:
    assert DEFAULTS.keys() == set(PrivacyKey)
    stranger, friend = (allowed_keys({}, ANN, contact=contact) for contact in (False, True))
    assert PrivacyKey.PHONE_NUMBER not in stranger
    assert PrivacyKey.PHONE_NUMBER in friend
    assert stranger < friend
    hidden = allowed_keys({PrivacyKey.ABOUT: (NOBODY,)}, ANN, contact=True)
    assert friend - hidden == {PrivacyKey.ABOUT}


def test_how_roughly_a_time_is_told() -> None:
    now = 1_700_000_000
    for age_s, seen in (
        (0, Seen.RECENTLY),
        (3 * DAY_S, Seen.RECENTLY),
        (3 * DAY_S + 1, Seen.WITHIN_WEEK),
        (7 * DAY_S + 1, Seen.WITHIN_MONTH),
        (30 * DAY_S + 1, Seen.LONG_AGO),
    ):
        rough = Presence(last_seen_at=now - age_s).roughly(now, by_viewer=True)
        assert (rough.seen, rough.last_seen_at, rough.online_until) == (seen, 0, 0)
    assert Presence(online_until=now + 60).roughly(now, by_viewer=False) == Presence(seen=Seen.RECENTLY)
    assert Presence().roughly(now, by_viewer=False) == Presence(seen=Seen.LONG_AGO)
