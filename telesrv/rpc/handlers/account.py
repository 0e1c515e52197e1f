"""The caller's own account: its devices, profile, presence and settings.

*Spec: Account settings; Sessions*
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from telesrv.domain.usernames import is_reserved_username, is_valid_username
from telesrv.domain.users import Authorization
from telesrv.mtproto.exchange import DH_BYTES, DH_G, DH_PRIME
from telesrv.rpc import fields
from telesrv.rpc.audience import set_offline, tell_presence
from telesrv.rpc.convert.users import status_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import self_to_tl
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

ONLINE_S: Final = 300
"""How long one report keeps an account online; clients repeat it sooner (online_update_period_ms)."""
DEVICE_TTL_DAYS: Final = 365
"""The longest that clients know; no device is logged out for being idle."""
STATUS_REPORTS_PER_MINUTE: Final = 60
"""Each change is a push to up to 1,000 others; clients report when their window comes and goes."""
CHECKS_PER_MINUTE: Final = 60
PROFILE_CHANGES_PER_HOUR: Final = 60


@handler(functions.account.GetAuthorizations)
async def get_authorizations(
    ctx: Context, request: functions.account.GetAuthorizations
) -> types.account.Authorizations:
    """Answers the devices that are logged in, the calling one with hash 0."""
    devices = await ctx.store.accounts.authorizations(ctx.user_id)
    return types.account.Authorizations(
        authorization_ttl_days=DEVICE_TTL_DAYS,
        authorizations=[_authorization_to_tl(device, ctx.caller.auth_key_id) for device in devices],
    )


@handler(functions.account.ResetAuthorization)
async def reset_authorization(ctx: Context, request: functions.account.ResetAuthorization) -> bool:
    """Logs one other device out."""
    removed = await ctx.store.accounts.reset(ctx.user_id, request.hash) if request.hash else []
    if not removed:
        raise bad_request("HASH_INVALID")
    await ctx.sessions.log_out(removed)
    return True


@handler(functions.account.UpdateStatus)
async def update_status(ctx: Context, request: functions.account.UpdateStatus) -> bool:
    """Keeps the presence and shows it at once to those who have the caller before their eyes and may know.
    What others have waiting until the caller is online is sent.
    """
    user_id, now = ctx.user_id, ctx.now()
    await ctx.store.limits.hit("account:status", user_id, STATUS_REPORTS_PER_MINUTE, 60)
    before = (await ctx.store.presence.get([user_id])).get(user_id)
    if request.offline:
        await set_offline(ctx.store, ctx.sessions, user_id, now)
    else:
        await ctx.store.presence.set_online(user_id, now + ONLINE_S)
        await ctx.store.until_online.came(user_id)
    after = (await ctx.store.presence.get([user_id])).get(user_id)
    if after is None or (before is not None and status_to_tl(before, now) == status_to_tl(after, now)):
        return True
    await tell_presence(ctx.store, ctx.sessions, user_id, now)
    return True


@handler(functions.account.UpdateProfile)
async def update_profile(ctx: Context, request: functions.account.UpdateProfile) -> types.User:
    """Changes those of names and about text that are given."""
    first_name = last_name = about = None
    if request.first_name is not None:
        first_name = fields.name(request.first_name, "FIRSTNAME_INVALID", required=True)
    if request.last_name is not None:
        last_name = fields.name(request.last_name, "LASTNAME_INVALID", required=False)
    if request.about is not None:
        about = fields.about(request.about)
    await ctx.store.limits.hit("account:profile", ctx.user_id, PROFILE_CHANGES_PER_HOUR, 3600)
    await ctx.store.profiles.update(ctx.user_id, first_name=first_name, last_name=last_name, about=about)
    return await self_to_tl(ctx)


@handler(functions.account.CheckUsername)
async def check_username(ctx: Context, request: functions.account.CheckUsername) -> bool:
    """Tells whether the name may be taken.

    Raises:
        RpcError: 400 USERNAME_INVALID, also for one by which somebody would pass for the service.
    """
    _check_username(request.username)
    await ctx.store.limits.hit("account:username", ctx.user_id, CHECKS_PER_MINUTE, 60)
    return await ctx.store.profiles.username_free(request.username)


@handler(functions.account.UpdateUsername)
async def update_username(ctx: Context, request: functions.account.UpdateUsername) -> types.User:
    """Takes the name, or gives the present one up when it is empty.

    Raises:
        RpcError: 400 USERNAME_INVALID, USERNAME_OCCUPIED, USERNAME_NOT_MODIFIED.
    """
    if request.username:
        _check_username(request.username)
    await ctx.store.limits.hit("account:profile", ctx.user_id, PROFILE_CHANGES_PER_HOUR, 3600)
    await ctx.store.profiles.set_username(ctx.user_id, request.username or None)
    return await self_to_tl(ctx)


@handler(functions.account.GetPassword)
async def get_password(ctx: Context, request: functions.account.GetPassword) -> types.account.Password:
    """Answers that there is no password, with what a client needs to make one.

    *Spec: Two-factor authentication (SRP)*
    """
    return types.account.Password(
        new_algo=types.PasswordKdfAlgoSHA256SHA256PBKDF2HMACSHA512iter100000SHA256ModPow(
            salt1=secrets.token_bytes(8),
            salt2=secrets.token_bytes(16),
            g=DH_G,
            p=DH_PRIME.to_bytes(DH_BYTES, "big"),
        ),
        new_secure_algo=types.SecurePasswordKdfAlgoPBKDF2HMACSHA512iter100000(salt=secrets.token_bytes(8)),
        secure_random=secrets.token_bytes(256),
    )


@handler(functions.account.UpdateDeviceLocked)
async def update_device_locked(ctx: Context, request: functions.account.UpdateDeviceLocked) -> bool:
    """Notes nothing: no push service is told of messages, so none has to hide their text."""
    return True


def _check_username(username: str) -> None:
    if not is_valid_username(username) or is_reserved_username(username):
        raise bad_request("USERNAME_INVALID")


def _authorization_to_tl(device: Authorization, calling_auth_key_id: int) -> types.Authorization:
    current = device.auth_key_id == calling_auth_key_id
    client = device.client
    return types.Authorization(
        current=current,
        official_app=False,
        hash=0 if current else device.hash,
        device_model=client.device_model,
        platform="",
        system_version=client.system_version,
        api_id=client.api_id,
        app_name="",
        app_version=client.app_version,
        date_created=device.created_at,
        date_active=device.active_at,
        ip=device.ip,
        country="",
        region="",
    )
