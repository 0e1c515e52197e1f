"""How the caller wants to be notified.

*Spec: Push notifications and settings*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telesrv.domain.notify import NotifyScope, NotifySettings, NotifyTarget
from telesrv.domain.peers import Peer, PeerType
from telesrv.rpc.convert.notify import (
    notify_settings_of,
    notify_settings_to_tl,
    notify_target_of,
    notify_update,
    reaction_settings_of,
    reaction_settings_to_tl,
)
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

CHANGES_PER_HOUR: Final = 1_000

_SCOPES: Final = {
    NotifyScope.USERS: PeerType.USER,
    NotifyScope.CHATS: PeerType.CHAT,
    NotifyScope.BROADCASTS: PeerType.CHANNEL,
}


@handler(functions.account.GetNotifySettings)
async def get_notify_settings(
    ctx: Context, request: functions.account.GetNotifySettings
) -> types.PeerNotifySettings:
    """Answers the settings of one chat or one kind of chats.

    Raises:
        RpcError: 400 PEER_ID_INVALID, CHAT_ID_INVALID, CHANNEL_INVALID, TOPIC_ID_INVALID.
    """
    target = notify_target_of(request.peer, ctx.user_id, ctx.secret)
    return notify_settings_to_tl(await ctx.store.notify.get(ctx.user_id, target))


@handler(functions.account.UpdateNotifySettings)
async def update_notify_settings(ctx: Context, request: functions.account.UpdateNotifySettings) -> bool:
    """Sets the settings of one chat or one kind of chats; what is left out goes by the wider ones again.

    Raises:
        RpcError: 400 SETTINGS_INVALID, PEER_ID_INVALID, CHAT_ID_INVALID, CHANNEL_INVALID, TOPIC_ID_INVALID.
    """
    target = notify_target_of(request.peer, ctx.user_id, ctx.secret)
    settings = notify_settings_of(request.settings)
    await ctx.store.limits.hit("account:notify", ctx.user_id, CHANGES_PER_HOUR, 3600)
    await ctx.store.notify.set(ctx.user_id, target, settings)
    return True


@handler(functions.account.ResetNotifySettings)
async def reset_notify_settings(ctx: Context, request: functions.account.ResetNotifySettings) -> bool:
    """Gives everything its default settings again."""
    await ctx.store.notify.reset(ctx.user_id)
    return True


@handler(functions.account.GetNotifyExceptions)
async def get_notify_exceptions(
    ctx: Context, request: functions.account.GetNotifyExceptions
) -> types.Updates:
    """Answers the chats whose settings differ from those of their kind, as updates.

    Raises:
        RpcError: 400 PEER_ID_INVALID, CHAT_ID_INVALID, CHANNEL_INVALID, TOPIC_ID_INVALID.
    """
    target = None if request.peer is None else notify_target_of(request.peer, ctx.user_id, ctx.secret)
    found = {
        peer: settings
        for peer, settings in (await ctx.store.notify.exceptions(ctx.user_id)).items()
        if _asked(target, peer) and _differs(settings, request)
    }
    updates = [
        notify_update(NotifyTarget(NotifyScope.PEER, peer), settings) for peer, settings in found.items()
    ]
    return await updates_to_tl(ctx, updates, (peer.id for peer in found if peer.type is PeerType.USER))


@handler(functions.account.GetReactionsNotifySettings)
async def get_reactions_notify_settings(
    ctx: Context, request: functions.account.GetReactionsNotifySettings
) -> types.ReactionsNotifySettings:
    """Answers of which reactions the caller is notified."""
    return reaction_settings_to_tl(await ctx.store.notify.reactions(ctx.user_id))


@handler(functions.account.SetReactionsNotifySettings)
async def set_reactions_notify_settings(
    ctx: Context, request: functions.account.SetReactionsNotifySettings
) -> types.ReactionsNotifySettings:
    """Sets of which reactions the caller is notified, and answers what is kept.

    Raises:
        RpcError: 400 SETTINGS_INVALID.
    """
    settings = reaction_settings_of(request.settings)
    await ctx.store.limits.hit("account:notify", ctx.user_id, CHANGES_PER_HOUR, 3600)
    await ctx.store.notify.set_reactions(ctx.user_id, settings)
    return reaction_settings_to_tl(settings)


@handler(functions.account.GetContactSignUpNotification)
async def get_contact_sign_up_notification(
    ctx: Context, request: functions.account.GetContactSignUpNotification
) -> bool:
    """Answers whether contacts that sign up are told of by a silent message only."""
    return await ctx.store.notify.sign_ups_silent(ctx.user_id)


@handler(functions.account.SetContactSignUpNotification)
async def set_contact_sign_up_notification(
    ctx: Context, request: functions.account.SetContactSignUpNotification
) -> bool:
    """Sets whether contacts that sign up are told of by a silent message only."""
    await ctx.store.limits.hit("account:notify", ctx.user_id, CHANGES_PER_HOUR, 3600)
    await ctx.store.notify.set_sign_ups_silent(ctx.user_id, request.silent)
    return True


def _asked(target: NotifyTarget | None, peer: Peer) -> bool:
    if target is None:
        return True
    return target.peer == peer if target.peer is not None else _SCOPES[target.scope] is peer.type


def _differs(settings: NotifySettings, request: functions.account.GetNotifyExceptions) -> bool:
    return (
        settings.differs
        or (request.compare_sound and settings.sound is not None)
        or (request.compare_stories and settings.differs_for_stories)
    )
