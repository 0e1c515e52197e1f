"""Notification settings between TL and the domain.

*Spec: Push notifications and settings*
"""

from __future__ import annotations

from typing import Any, Final

from telesrv.domain.messages import MessageBox
from telesrv.domain.notify import (
    DEFAULT,
    SCOPE_DEFAULT,
    NotifyFrom,
    NotifyScope,
    NotifySettings,
    NotifyTarget,
    ReactionSettings,
    Sound,
    settings_from_json,
)
from telesrv.domain.peers import MAX_ID, Peer, PeerType
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.peers import peer_of, peer_to_tl
from telesrv.rpc.convert.updates import Views, converts
from telesrv.rpc.errors import bad_request
from telesrv.tl import types

MAX_SOUND: Final = 512
"""Of the title and the data of a client's own sound, code points."""


def notify_target_of(peer: types.TypeInputNotifyPeer, viewer_user_id: int, secret: bytes) -> NotifyTarget:
    """Returns what settings are asked for or set.

    Raises:
        RpcError: 400 PEER_ID_INVALID, CHAT_ID_INVALID, CHANNEL_INVALID; TOPIC_ID_INVALID: no topics here.
    """
    match peer:
        case types.InputNotifyUsers():
            return NotifyTarget(NotifyScope.USERS)
        case types.InputNotifyChats():
            return NotifyTarget(NotifyScope.CHATS)
        case types.InputNotifyBroadcasts():
            return NotifyTarget(NotifyScope.BROADCASTS)
        case types.InputNotifyPeer():
            return NotifyTarget(NotifyScope.PEER, peer_of(peer.peer, viewer_user_id, secret))
        case types.InputNotifyForumTopic():
            peer_of(peer.peer, viewer_user_id, secret)
            raise bad_request("TOPIC_ID_INVALID")
        case _:
            raise bad_request("PEER_ID_INVALID")


def notify_settings_of(settings: types.InputPeerNotifySettings) -> NotifySettings:
    """Returns the settings that a client sets.

    Raises:
        RpcError: 400 SETTINGS_INVALID for a sound that cannot be kept.

    *Spec: account.updateNotifySettings*
    """
    mute_until = settings.mute_until
    return NotifySettings(
        show_previews=settings.show_previews,
        silent=settings.silent,
        mute_until=None if mute_until is None else min(max(mute_until, 0), MAX_ID),
        sound=maybe_sound_of(settings.sound),
        stories_muted=settings.stories_muted,
        stories_hide_sender=settings.stories_hide_sender,
        stories_sound=maybe_sound_of(settings.stories_sound),
    )


def maybe_sound_of(sound: types.TypeNotificationSound | None) -> Sound | None:
    """Returns a sound that a client sets, if it sets one; raises as `sound_of`."""
    return None if sound is None else sound_of(sound)


def sound_of(sound: types.TypeNotificationSound) -> Sound:
    """Returns a sound that a client sets.

    Raises:
        RpcError: 400 SETTINGS_INVALID for one that cannot be kept.
    """
    match sound:
        case types.NotificationSoundDefault():
            return Sound("default")
        case types.NotificationSoundNone():
            return Sound("none")
        case types.NotificationSoundLocal() if _is_kept(sound.title) and _is_kept(sound.data):
            return Sound("local", sound.title, sound.data)
        case _:
            raise bad_request("SETTINGS_INVALID")


def _is_kept(text: str) -> bool:
    return len(text) <= MAX_SOUND and "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def _maybe_sound_to_tl(sound: Sound | None) -> types.TypeNotificationSound | None:
    return None if sound is None else sound_to_tl(sound)


def sound_to_tl(sound: Sound) -> types.TypeNotificationSound:
    """Returns a sound as its owner is shown it."""
    if sound.kind == "local":
        return types.NotificationSoundLocal(title=sound.title, data=sound.data)
    return types.NotificationSoundNone() if sound.kind == "none" else types.NotificationSoundDefault()


def notify_settings_to_tl(settings: NotifySettings) -> types.PeerNotifySettings:
    """Returns the settings as their owner is shown them; one sound serves every system.

    *Spec: Push notifications and settings*
    """
    sound, stories = _maybe_sound_to_tl(settings.sound), _maybe_sound_to_tl(settings.stories_sound)
    return types.PeerNotifySettings(
        show_previews=settings.show_previews,
        silent=settings.silent,
        mute_until=settings.mute_until,
        ios_sound=sound,
        android_sound=sound,
        other_sound=sound,
        stories_muted=settings.stories_muted,
        stories_hide_sender=settings.stories_hide_sender,
        stories_ios_sound=stories,
        stories_android_sound=stories,
        stories_other_sound=stories,
    )


def reaction_settings_of(settings: types.TypeReactionsNotifySettings) -> ReactionSettings:
    """Returns the settings that a client sets.

    Raises:
        RpcError: 400 SETTINGS_INVALID for a sound that cannot be kept.

    *Spec: account.setReactionsNotifySettings*
    """
    return ReactionSettings(
        messages=_whose(settings.messages_notify_from),
        stories=_whose(settings.stories_notify_from),
        poll_votes=_whose(settings.poll_votes_notify_from),
        sound=sound_of(settings.sound),
        show_previews=settings.show_previews,
    )


def _whose(asked: types.TypeReactionNotificationsFrom | None) -> NotifyFrom | None:
    if asked is None:
        return None
    everybody = isinstance(asked, types.ReactionNotificationsFromAll)
    return NotifyFrom.ALL if everybody else NotifyFrom.CONTACTS


def reaction_settings_to_tl(settings: ReactionSettings) -> types.ReactionsNotifySettings:
    """Returns the settings as their owner is shown them.

    *Spec: account.getReactionsNotifySettings*
    """

    def shown(whose: NotifyFrom | None) -> types.TypeReactionNotificationsFrom | None:
        if whose is None:
            return None
        if whose is NotifyFrom.ALL:
            return types.ReactionNotificationsFromAll()
        return types.ReactionNotificationsFromContacts()

    return types.ReactionsNotifySettings(
        messages_notify_from=shown(settings.messages),
        stories_notify_from=shown(settings.stories),
        poll_votes_notify_from=shown(settings.poll_votes),
        sound=sound_to_tl(settings.sound),
        show_previews=settings.show_previews,
    )


def notify_peer_to_tl(target: NotifyTarget) -> types.TypeNotifyPeer:
    """Returns what settings are for."""
    if target.peer is not None:
        return types.NotifyPeer(peer=peer_to_tl(target.peer))
    if target.scope is NotifyScope.CHATS:
        return types.NotifyChats()
    return types.NotifyBroadcasts() if target.scope is NotifyScope.BROADCASTS else types.NotifyUsers()


def notify_update(target: NotifyTarget, settings: NotifySettings) -> types.UpdateNotifySettings:
    """Returns the update that tells the settings of one target."""
    return types.UpdateNotifySettings(
        peer=notify_peer_to_tl(target), notify_settings=notify_settings_to_tl(settings)
    )


@converts(EventKind.NOTIFY_SETTINGS)
def _notify_settings(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    payload: Any = event.payload or {}
    if "reset" not in payload:
        target = NotifyTarget(NotifyScope(payload["scope"]), event.peer)
        return [notify_update(target, settings_from_json(payload["settings"]))]
    updates: list[types.TypeUpdate] = []
    for scope, peer_type, peer_id in payload["reset"]:
        peer = Peer(PeerType(peer_type), peer_id) if peer_type else None
        settings = DEFAULT if peer is not None else SCOPE_DEFAULT
        updates.append(notify_update(NotifyTarget(NotifyScope(scope), peer), settings))
    return updates
