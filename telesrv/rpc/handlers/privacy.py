"""Who may see and do what: the caller's own rules.

*Spec: Privacy*
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from telesrv.domain.privacy import AccountFlags, PrivacyKey, Rules, normalized
from telesrv.rpc.audience import tell_presence
from telesrv.rpc.convert.privacy import privacy_key_of, privacy_rules_of, privacy_rules_to_tl
from telesrv.rpc.errors import FORBIDDEN, RpcError, unauthorized
from telesrv.rpc.registry import handler
from telesrv.rpc.views import users_to_tl
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

CHANGES_PER_HOUR: Final = 200


@handler(functions.account.GetPrivacy)
async def get_privacy(ctx: Context, request: functions.account.GetPrivacy) -> types.account.PrivacyRules:
    """Answers the rules that hold for one key.

    Raises:
        RpcError: 400 PRIVACY_KEY_INVALID.
    """
    return await _rules_to_tl(ctx, await ctx.store.privacy.get(ctx.user_id, privacy_key_of(request.key)))


@handler(functions.account.SetPrivacy)
async def set_privacy(ctx: Context, request: functions.account.SetPrivacy) -> types.account.PrivacyRules:
    """Sets the rules of one key; who sees the caller is told what they may see from now on.

    Raises:
        RpcError: 400 PRIVACY_KEY_INVALID, PRIVACY_VALUE_INVALID, PRIVACY_TOO_LONG.
    """
    key = privacy_key_of(request.key)
    rules = await _existing(ctx, privacy_rules_of(request.rules, ctx.user_id, ctx.secret))
    await ctx.store.limits.hit("account:privacy", ctx.user_id, CHANGES_PER_HOUR, 3600)
    changed = await ctx.store.privacy.set(ctx.user_id, key, rules)
    if changed and key is PrivacyKey.STATUS_TIMESTAMP:
        await tell_presence(ctx.store, ctx.sessions, ctx.user_id, ctx.now(), roughly=True)
    return await _rules_to_tl(ctx, rules)


@handler(functions.account.GetGlobalPrivacySettings)
async def get_global_privacy_settings(
    ctx: Context, request: functions.account.GetGlobalPrivacySettings
) -> types.GlobalPrivacySettings:
    """Answers the caller's switches."""
    user = await ctx.store.users.get(ctx.user_id)
    if user is None:
        raise unauthorized()
    return _flags_to_tl(user.flags)


@handler(functions.account.SetGlobalPrivacySettings)
async def set_global_privacy_settings(
    ctx: Context, request: functions.account.SetGlobalPrivacySettings
) -> types.GlobalPrivacySettings:
    """Sets the caller's switches.

    Raises:
        RpcError: 403 PREMIUM_ACCOUNT_REQUIRED for what would keep strangers out: everybody may be written to
            here.
    """
    settings = request.settings
    if settings.new_noncontact_peers_require_premium or settings.noncontact_peers_paid_stars:
        raise RpcError(FORBIDDEN, "PREMIUM_ACCOUNT_REQUIRED")
    flags = AccountFlags(0)
    if settings.keep_archived_unmuted:
        flags |= AccountFlags.KEEP_ARCHIVED_UNMUTED
    if settings.keep_archived_folders:
        flags |= AccountFlags.KEEP_ARCHIVED_FOLDERS
    if settings.hide_read_marks:
        flags |= AccountFlags.HIDE_READ_MARKS
    if settings.archive_and_mute_new_noncontact_peers:
        flags |= AccountFlags.ARCHIVE_NEW
    await ctx.store.profiles.set_flags(ctx.user_id, flags)
    return _flags_to_tl(flags)


def _flags_to_tl(flags: AccountFlags) -> types.GlobalPrivacySettings:
    return types.GlobalPrivacySettings(
        archive_and_mute_new_noncontact_peers=AccountFlags.ARCHIVE_NEW in flags,
        keep_archived_unmuted=AccountFlags.KEEP_ARCHIVED_UNMUTED in flags,
        keep_archived_folders=AccountFlags.KEEP_ARCHIVED_FOLDERS in flags,
        hide_read_marks=AccountFlags.HIDE_READ_MARKS in flags,
    )


async def _existing(ctx: Context, rules: Rules) -> Rules:
    """Returns the rules without the accounts that are gone."""
    named = frozenset[int]().union(*(rule.user_ids for rule in rules))
    there = await ctx.store.users.existing(named)
    kept = (
        replace(rule, user_ids=rule.user_ids & there) if rule.user_ids else rule
        for rule in rules
        if not rule.user_ids or rule.user_ids & there
    )
    return normalized(kept)


async def _rules_to_tl(ctx: Context, rules: Rules) -> types.account.PrivacyRules:
    named = frozenset[int]().union(*(rule.user_ids for rule in rules))
    users = await users_to_tl(ctx, named)
    return types.account.PrivacyRules(rules=privacy_rules_to_tl(rules), chats=[], users=users)
