"""Accounts as one viewer sees them: `user`, `userFull`, presence.

*Spec: Contacts; Users*
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from telesrv.domain.contacts import action_bar
from telesrv.domain.peers import SERVICE_USER_ID, Peer, access_hash
from telesrv.domain.privacy import PrivacyKey
from telesrv.domain.users import Birthday, Contact, Presence, Seen, UserView
from telesrv.rpc.convert.entities import entities_to_tl
from telesrv.tl import types

SERVICE_PHONE: Final = "42777"


def user_to_tl(view: UserView, secret: bytes, now: int | None = None) -> types.User:
    """Returns the account as its viewer may see it: names of the address book, phone only where allowed.

    Args:
        view: the account, the viewer's contact entry and the presence, read together.
        secret: for the viewer's access_hash.
        now: unix seconds; without it an account counts as online until its own mark, whatever the time,
            which clients read as "last seen" once that has passed.

    *Spec: Users*
    """
    user = view.user
    hash_ = access_hash(secret, view.viewer_user_id, Peer.user(user.user_id))
    if user.deleted:
        return types.User(id=user.user_id, access_hash=hash_, deleted=True)
    service = user.user_id == SERVICE_USER_ID
    phone = SERVICE_PHONE if service else user.phone
    return types.User(
        id=user.user_id,
        access_hash=hash_,
        self_=view.is_self,
        contact=view.contact is not None,
        mutual_contact=view.contact is not None and view.contact.mutual,
        verified=service,
        support=service,
        first_name=view.first_name or None,
        last_name=view.last_name or None,
        username=user.username,
        phone=(phone or None) if view.phone_visible or view.is_self or service else None,
        status=None if service else status_to_tl(view.presence, now),
    )


def status_to_tl(presence: Presence, now: int | None = None) -> types.TypeUserStatus:
    """Returns the presence as TL has it: online until then, last seen then, or about when, or long ago."""
    if presence.seen is not Seen.EXACTLY:
        return _ROUGHLY[presence.seen](presence.by_viewer)
    online = presence.online_until
    if online and (online > now if now is not None else online > presence.last_seen_at):
        return types.UserStatusOnline(expires=online)
    seen = max(presence.last_seen_at, online)
    return types.UserStatusOffline(was_online=seen) if seen else types.UserStatusEmpty()


_ROUGHLY: Final[dict[Seen, Callable[[bool], types.TypeUserStatus]]] = {
    Seen.RECENTLY: lambda by_viewer: types.UserStatusRecently(by_me=by_viewer),
    Seen.WITHIN_WEEK: lambda by_viewer: types.UserStatusLastWeek(by_me=by_viewer),
    Seen.WITHIN_MONTH: lambda by_viewer: types.UserStatusLastMonth(by_me=by_viewer),
    Seen.LONG_AGO: lambda by_viewer: types.UserStatusEmpty(),
}


def usernames_to_tl(view: UserView) -> list[types.TypeUsername]:
    """Returns the usernames of the account: one at most."""
    name = view.user.username
    return [types.Username(username=name, active=True, editable=view.is_self)] if name else []


def birthday_to_tl(birthday: Birthday) -> types.Birthday:
    """Returns the day, with the year if the account tells it."""
    return types.Birthday(day=birthday.day, month=birthday.month, year=birthday.year or None)


def peer_settings_to_tl(view: UserView) -> types.PeerSettings:
    """Returns the action bar of the viewer's chat with the account; nothing for oneself and the service.

    *Spec: Action bar*
    """
    if view.is_self or view.user.deleted or view.user.user_id == SERVICE_USER_ID:
        return types.PeerSettings()
    bar = action_bar(
        listed=view.contact is not None,
        phone_shared=view.phone_shared,
        blocked=view.blocked,
        hidden=view.bar_hidden,
    )
    return types.PeerSettings(
        add_contact=bar["add_contact"],
        block_contact=bar["block_contact"],
        share_contact=bar["share_contact"],
        need_contacts_exception=view.phone_needs_exception and bar["add_contact"],
    )


def user_full_to_tl(view: UserView, notify_settings: types.PeerNotifySettings) -> types.UserFull:
    """Returns the profile page of the account, as far as its viewer may read it.

    *Spec: Users*
    """
    service = view.user.user_id == SERVICE_USER_ID
    contact = view.contact
    if view.user.deleted:
        return types.UserFull(
            id=view.user.user_id,
            blocked=view.blocked,
            settings=types.PeerSettings(),
            notify_settings=notify_settings,
            common_chats_count=0,
        )
    return types.UserFull(
        id=view.user.user_id,
        about=view.about or None,
        blocked=view.blocked,
        can_pin_message=False,
        settings=peer_settings_to_tl(view),
        notify_settings=notify_settings,
        common_chats_count=0,
        phone_calls_available=False,
        phone_calls_private=not service,
        note=None if contact is None or not contact.note else note_to_tl(contact),
        voice_messages_forbidden=not service and not view.may(PrivacyKey.VOICE_MESSAGES),
        read_dates_private=not view.is_self and view.read_dates_hidden,
        private_forward_name=view.maybe_forward_name,
        birthday=None if view.birthday is None else birthday_to_tl(view.birthday),
    )


def note_to_tl(contact: Contact) -> types.TextWithEntities:
    """Returns what the owner wrote about a contact.

    *Spec: contacts.updateContactNote*
    """
    return types.TextWithEntities(text=contact.note, entities=entities_to_tl(contact.note_entities) or [])
