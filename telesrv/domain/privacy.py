"""Who may see and do what: an account's own rules, and what they mean for one viewer.

A rule list is read from its first rule on; the first that speaks of the viewer decides, and where none does
the answer is no. Rules that name accounts come before those for contacts, and these before those for
everybody, whatever order they were given in.

*Spec: Privacy*
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Final

MAX_NAMED: Final = 1_000
"""The most accounts that the rules of one key name."""


class PrivacyKey(IntEnum):
    """What rules are about; the numbers are stored and never reused."""

    STATUS_TIMESTAMP = 1
    CHAT_INVITE = 2
    PHONE_CALL = 3
    PHONE_P2P = 4
    FORWARDS = 5
    PROFILE_PHOTO = 6
    PHONE_NUMBER = 7
    ADDED_BY_PHONE = 8
    VOICE_MESSAGES = 9
    ABOUT = 10
    BIRTHDAY = 11
    STAR_GIFTS_AUTO_SAVE = 12
    NO_PAID_MESSAGES = 13
    SAVED_MUSIC = 14


class RuleKind(IntEnum):
    """What a rule says; stored and never reused. In the order in which rules are looked at."""

    ALLOW_USERS = 1
    DISALLOW_USERS = 2
    ALLOW_CHAT_PARTICIPANTS = 3
    DISALLOW_CHAT_PARTICIPANTS = 4
    ALLOW_CLOSE_FRIENDS = 5
    ALLOW_PREMIUM = 6
    ALLOW_BOTS = 7
    DISALLOW_BOTS = 8
    ALLOW_CONTACTS = 9
    DISALLOW_CONTACTS = 10
    ALLOW_ALL = 11
    DISALLOW_ALL = 12


GENERAL: Final = frozenset({RuleKind.ALLOW_ALL, RuleKind.DISALLOW_ALL})


class AccountFlags(IntFlag):
    """The switches of an account's global privacy settings; stored."""

    KEEP_ARCHIVED_UNMUTED = 1
    KEEP_ARCHIVED_FOLDERS = 2
    HIDE_READ_MARKS = 4
    ARCHIVE_NEW = 8
    """A chat that somebody begins who is not in the address book goes to the archive, muted."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; *user_ids* only for those that name accounts."""

    kind: RuleKind
    user_ids: frozenset[int] = frozenset()


Rules = tuple[Rule, ...]

_ALL: Final[Rules] = (Rule(RuleKind.ALLOW_ALL),)
_CONTACTS: Final[Rules] = (Rule(RuleKind.ALLOW_CONTACTS), Rule(RuleKind.DISALLOW_ALL))
_NOBODY: Final[Rules] = (Rule(RuleKind.DISALLOW_ALL),)

DEFAULTS: Final[Mapping[PrivacyKey, Rules]] = {
    **dict.fromkeys(PrivacyKey, _ALL),
    PrivacyKey.PHONE_NUMBER: _CONTACTS,
    PrivacyKey.PHONE_P2P: _CONTACTS,
    PrivacyKey.BIRTHDAY: _CONTACTS,
    PrivacyKey.NO_PAID_MESSAGES: _NOBODY,
}
"""The rules of an account that has set none."""


def normalized(rules: Iterable[Rule]) -> Rules:
    """Returns the rules as they are kept: in the order they are looked at, the last one for everybody.

    Raises:
        ValueError: two rules for everybody, two for contacts, or one kind twice.
    """
    ordered = sorted(rules, key=lambda rule: rule.kind)
    kinds = [rule.kind for rule in ordered]
    contacts = (RuleKind.ALLOW_CONTACTS, RuleKind.DISALLOW_CONTACTS)
    if len(set(kinds)) != len(kinds) or all(kind in kinds for kind in contacts) or set(kinds) >= GENERAL:
        raise ValueError("rules that contradict each other")
    if not kinds or kinds[-1] not in GENERAL:
        ordered.append(Rule(RuleKind.DISALLOW_ALL))
    return tuple(ordered)


def allows(rules: Sequence[Rule], viewer_user_id: int, *, contact: bool) -> bool:
    """Tells whether the rules of an account allow the viewer.

    Args:
        contact: the account has the viewer in its address book.
    """
    for rule in rules:
        match rule.kind:
            case RuleKind.ALLOW_USERS if viewer_user_id in rule.user_ids:
                return True
            case RuleKind.DISALLOW_USERS if viewer_user_id in rule.user_ids:
                return False
            case RuleKind.ALLOW_CONTACTS if contact:
                return True
            case RuleKind.DISALLOW_CONTACTS if contact:
                return False
            case RuleKind.ALLOW_ALL:
                return True
            case RuleKind.DISALLOW_ALL:
                return False
            case _:
                # Nobody is a bot, a close friend, premium, or in a group.
                continue
    return False


def allowed_keys(
    rules: Mapping[PrivacyKey, Rules], viewer_user_id: int, *, contact: bool
) -> frozenset[PrivacyKey]:
    """Returns everything that an account allows the viewer.

    Args:
        rules: those that the account has set; the defaults hold for the rest.
        contact: the account has the viewer in its address book.
    """
    return frozenset(
        key for key in PrivacyKey if allows(rules.get(key, DEFAULTS[key]), viewer_user_id, contact=contact)
    )


def rules_to_json(rules: Iterable[Rule]) -> list[list[Any]]:
    """Returns the rules as they are stored: [kind, user ids]."""
    return [[int(rule.kind), sorted(rule.user_ids)] for rule in rules]


def rules_from_json(value: Iterable[Sequence[Any]]) -> Rules:
    """Returns the rules that `rules_to_json` made *value* of."""
    return tuple(Rule(RuleKind(kind), frozenset(user_ids)) for kind, user_ids in value)
