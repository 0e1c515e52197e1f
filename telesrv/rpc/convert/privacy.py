"""Privacy rules between TL and the domain.

*Spec: Privacy*
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from telesrv.domain.messages import MessageBox
from telesrv.domain.privacy import MAX_NAMED, PrivacyKey, Rule, RuleKind, Rules, normalized, rules_from_json
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.peers import user_of
from telesrv.rpc.convert.updates import Views, converts
from telesrv.rpc.errors import bad_request
from telesrv.tl import types

_INPUT_KEYS: Final[dict[type, PrivacyKey]] = {
    types.InputPrivacyKeyStatusTimestamp: PrivacyKey.STATUS_TIMESTAMP,
    types.InputPrivacyKeyChatInvite: PrivacyKey.CHAT_INVITE,
    types.InputPrivacyKeyPhoneCall: PrivacyKey.PHONE_CALL,
    types.InputPrivacyKeyPhoneP2P: PrivacyKey.PHONE_P2P,
    types.InputPrivacyKeyForwards: PrivacyKey.FORWARDS,
    types.InputPrivacyKeyProfilePhoto: PrivacyKey.PROFILE_PHOTO,
    types.InputPrivacyKeyPhoneNumber: PrivacyKey.PHONE_NUMBER,
    types.InputPrivacyKeyAddedByPhone: PrivacyKey.ADDED_BY_PHONE,
    types.InputPrivacyKeyVoiceMessages: PrivacyKey.VOICE_MESSAGES,
    types.InputPrivacyKeyAbout: PrivacyKey.ABOUT,
    types.InputPrivacyKeyBirthday: PrivacyKey.BIRTHDAY,
    types.InputPrivacyKeyStarGiftsAutoSave: PrivacyKey.STAR_GIFTS_AUTO_SAVE,
    types.InputPrivacyKeyNoPaidMessages: PrivacyKey.NO_PAID_MESSAGES,
    types.InputPrivacyKeySavedMusic: PrivacyKey.SAVED_MUSIC,
}
_KEYS: Final[dict[PrivacyKey, type[types.TypePrivacyKey]]] = {
    PrivacyKey.STATUS_TIMESTAMP: types.PrivacyKeyStatusTimestamp,
    PrivacyKey.CHAT_INVITE: types.PrivacyKeyChatInvite,
    PrivacyKey.PHONE_CALL: types.PrivacyKeyPhoneCall,
    PrivacyKey.PHONE_P2P: types.PrivacyKeyPhoneP2P,
    PrivacyKey.FORWARDS: types.PrivacyKeyForwards,
    PrivacyKey.PROFILE_PHOTO: types.PrivacyKeyProfilePhoto,
    PrivacyKey.PHONE_NUMBER: types.PrivacyKeyPhoneNumber,
    PrivacyKey.ADDED_BY_PHONE: types.PrivacyKeyAddedByPhone,
    PrivacyKey.VOICE_MESSAGES: types.PrivacyKeyVoiceMessages,
    PrivacyKey.ABOUT: types.PrivacyKeyAbout,
    PrivacyKey.BIRTHDAY: types.PrivacyKeyBirthday,
    PrivacyKey.STAR_GIFTS_AUTO_SAVE: types.PrivacyKeyStarGiftsAutoSave,
    PrivacyKey.NO_PAID_MESSAGES: types.PrivacyKeyNoPaidMessages,
    PrivacyKey.SAVED_MUSIC: types.PrivacyKeySavedMusic,
}
_PLAIN: Final[dict[RuleKind, tuple[type, Callable[[], types.TypePrivacyRule]]]] = {
    RuleKind.ALLOW_CLOSE_FRIENDS: (
        types.InputPrivacyValueAllowCloseFriends,
        types.PrivacyValueAllowCloseFriends,
    ),
    RuleKind.ALLOW_PREMIUM: (types.InputPrivacyValueAllowPremium, types.PrivacyValueAllowPremium),
    RuleKind.ALLOW_BOTS: (types.InputPrivacyValueAllowBots, types.PrivacyValueAllowBots),
    RuleKind.DISALLOW_BOTS: (types.InputPrivacyValueDisallowBots, types.PrivacyValueDisallowBots),
    RuleKind.ALLOW_CONTACTS: (types.InputPrivacyValueAllowContacts, types.PrivacyValueAllowContacts),
    RuleKind.DISALLOW_CONTACTS: (types.InputPrivacyValueDisallowContacts, types.PrivacyValueDisallowContacts),
    RuleKind.ALLOW_ALL: (types.InputPrivacyValueAllowAll, types.PrivacyValueAllowAll),
    RuleKind.DISALLOW_ALL: (types.InputPrivacyValueDisallowAll, types.PrivacyValueDisallowAll),
}
"""Rules that name nobody."""
_PLAIN_KINDS: Final = {given: kind for kind, (given, _) in _PLAIN.items()}


def privacy_key_of(key: types.TypeInputPrivacyKey) -> PrivacyKey:
    """Returns what rules are asked for or set.

    Raises:
        RpcError: 400 PRIVACY_KEY_INVALID.
    """
    found = _INPUT_KEYS.get(type(key))
    if found is None:
        raise bad_request("PRIVACY_KEY_INVALID")
    return found


def privacy_rules_of(
    rules: Sequence[types.TypeInputPrivacyRule], viewer_user_id: int, secret: bytes
) -> Rules:
    """Returns the rules that a client sets; rules that name nobody are left out.

    Raises:
        RpcError: 400 PRIVACY_TOO_LONG when they name too many; PRIVACY_VALUE_INVALID when they contradict
            each other, or name an account that the client cannot name, or a group: there are none.

    *Spec: account.setPrivacy*
    """
    if len(rules) > len(RuleKind):
        raise bad_request("PRIVACY_TOO_LONG")
    found: list[Rule] = []
    for rule in rules:
        match rule:
            case types.InputPrivacyValueAllowUsers():
                found += _naming(RuleKind.ALLOW_USERS, rule.users, viewer_user_id, secret)
            case types.InputPrivacyValueDisallowUsers():
                found += _naming(RuleKind.DISALLOW_USERS, rule.users, viewer_user_id, secret)
            case types.InputPrivacyValueAllowChatParticipants():
                _no_chats(rule.chats)
            case types.InputPrivacyValueDisallowChatParticipants():
                _no_chats(rule.chats)
            case _:
                found.append(Rule(_PLAIN_KINDS[type(rule)]))
    if sum(len(rule.user_ids) for rule in found) > MAX_NAMED:
        raise bad_request("PRIVACY_TOO_LONG")
    try:
        return normalized(found)
    except ValueError as error:
        raise bad_request("PRIVACY_VALUE_INVALID") from error


def _naming(
    kind: RuleKind, users: Sequence[types.TypeInputUser], viewer_user_id: int, secret: bytes
) -> list[Rule]:
    if len(users) > MAX_NAMED:
        raise bad_request("PRIVACY_TOO_LONG")
    ids = {user_of(user, viewer_user_id, secret, "PRIVACY_VALUE_INVALID") for user in users}
    ids.discard(viewer_user_id)
    return [Rule(kind, frozenset(ids))] if ids else []


def _no_chats(chats: Sequence[int]) -> None:
    if chats:
        raise bad_request("PRIVACY_VALUE_INVALID")


def privacy_rules_to_tl(rules: Iterable[Rule]) -> list[types.TypePrivacyRule]:
    """Returns the rules as their owner is shown them.

    *Spec: Privacy*
    """
    shown: list[types.TypePrivacyRule] = []
    for rule in rules:
        if rule.kind is RuleKind.ALLOW_USERS:
            shown.append(types.PrivacyValueAllowUsers(users=sorted(rule.user_ids)))
        elif rule.kind is RuleKind.DISALLOW_USERS:
            shown.append(types.PrivacyValueDisallowUsers(users=sorted(rule.user_ids)))
        elif rule.kind in _PLAIN:
            shown.append(_PLAIN[rule.kind][1]())
    return shown


@converts(EventKind.PRIVACY)
def _privacy(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    payload: Any = event.payload or {}
    rules = rules_from_json(payload["rules"])
    key = _KEYS[PrivacyKey(payload["key"])]()
    return [types.UpdatePrivacy(key=key, rules=privacy_rules_to_tl(rules))]
