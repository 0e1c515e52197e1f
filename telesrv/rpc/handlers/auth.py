"""Login and log-out of a device, and the binding of its temporary keys.

*Spec: User Authorization; Perfect Forward Secrecy*
"""

from __future__ import annotations

import contextlib
import datetime
import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from telesrv.domain.errors import FloodWait, PeerInvalid
from telesrv.domain.messages import Entity
from telesrv.domain.phones import maybe_phone
from telesrv.domain.users import Authorization, LoginCode, User
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.errors import ProtocolError
from telesrv.mtproto.exchange_bind import verify_bind_temp_auth_key
from telesrv.rpc import exported_auth, fields
from telesrv.rpc.audience import set_offline, tell_presence
from telesrv.rpc.convert.users import SERVICE_PHONE
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import self_to_tl
from telesrv.store.codes import Asker, network_of
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

LOGIN_TOKEN_S: Final = 60
"""How long a QR code is shown before the client asks for another."""
RESEND_AFTER_S: Final = 60
DC_IDS: Final = range(1, 6)

_CODE_TITLE: Final = "Login code:"
_LOGIN_TITLE: Final = "New login."


def phone_of(text: str) -> str:
    """Returns the digits of a phone number.

    Raises:
        RpcError: 400 PHONE_NUMBER_INVALID.
    """
    phone = maybe_phone(text)
    if phone is None:
        raise bad_request("PHONE_NUMBER_INVALID")
    return phone


@handler(functions.auth.SendCode, before_login=True)
async def send_code(ctx: Context, request: functions.auth.SendCode) -> types.auth.SentCode:
    """Makes a login code and takes it to the owner: to the account's other devices, and by the sender."""
    phone = phone_of(request.phone_number)
    if phone == SERVICE_PHONE:
        raise bad_request("PHONE_NUMBER_BANNED")
    user = await ctx.store.accounts.by_phone(phone)
    devices = [] if user is None else await ctx.store.accounts.authorizations(user.user_id)
    code = await ctx.store.codes.create(phone, _asker(ctx, devices))
    if user is not None and any(device.auth_key_id != ctx.caller.auth_key_id for device in devices):
        await _send_to_devices(ctx, user, code)
        # And by the sender, while it may: who lost the other devices has no client left to ask for it.
        with contextlib.suppress(FloodWait):
            await send_by_sms(ctx, code)
        return types.auth.SentCode(
            type=types.auth.SentCodeTypeApp(length=code.length),
            phone_code_hash=code.phone_code_hash,
            next_type=types.auth.CodeTypeSms(),
            timeout=RESEND_AFTER_S,
        )
    return await send_by_sms(ctx, code)


@handler(functions.auth.ResendCode, before_login=True)
async def resend_code(ctx: Context, request: functions.auth.ResendCode) -> types.auth.SentCode:
    """Makes another code under the same hash; it goes by the sender, for who has no other device at hand."""
    phone = phone_of(request.phone_number)
    check_hash(request.phone_code_hash)
    asker = await asker_for(ctx, phone)
    code = await ctx.store.codes.resend(phone, request.phone_code_hash, asker)
    return await send_by_sms(ctx, code)


@handler(functions.auth.CancelCode, before_login=True)
async def cancel_code(ctx: Context, request: functions.auth.CancelCode) -> bool:
    """Withdraws a code."""
    phone = phone_of(request.phone_number)
    if not await ctx.store.codes.cancel(phone, request.phone_code_hash, ctx.caller.auth_key_id):
        raise bad_request("PHONE_CODE_EXPIRED")
    return True


@handler(functions.auth.SignIn, before_login=True)
async def sign_in(ctx: Context, request: functions.auth.SignIn) -> types.auth.TypeAuthorization:
    """Logs the device in with a right code, or says that the number has no account yet."""
    phone = phone_of(request.phone_number)
    if not request.phone_code:
        raise bad_request("PHONE_CODE_EMPTY")
    check_hash(request.phone_code_hash)
    key_id, code_hash = ctx.caller.auth_key_id, request.phone_code_hash
    asker = await asker_for(ctx, phone)
    await ctx.store.codes.check(phone, code_hash, request.phone_code, asker)
    user = await ctx.store.accounts.by_phone(phone)
    if user is None:
        return types.auth.AuthorizationSignUpRequired()
    if not await ctx.store.codes.consume(phone, code_hash, key_id):
        raise bad_request("PHONE_CODE_EXPIRED")
    if ctx.caller.user_id != user.user_id:
        try:
            await _tell_of_login(ctx, user)
        except PeerInvalid as error:  # it was deleted a moment ago
            raise bad_request("PHONE_NUMBER_UNOCCUPIED") from error
    return await _log_in(ctx, user)


@handler(functions.auth.SignUp, before_login=True)
async def sign_up(ctx: Context, request: functions.auth.SignUp) -> types.auth.Authorization:
    """Makes the account of a number whose code was right a moment ago, and logs the device in. Who has the
    number in the address book is told, without a message if no_joined_notifications says so.
    """
    phone = phone_of(request.phone_number)
    check_hash(request.phone_code_hash)
    first_name = fields.name(request.first_name, "FIRSTNAME_INVALID", required=True)
    last_name = fields.name(request.last_name, "LASTNAME_INVALID", required=False)
    key_id, code_hash = ctx.caller.auth_key_id, request.phone_code_hash
    if not await ctx.store.codes.verified(phone, code_hash, key_id):
        raise bad_request("PHONE_CODE_EXPIRED")
    quiet = request.no_joined_notifications
    user = await ctx.store.accounts.sign_up(phone, first_name, last_name, quiet=quiet)
    answer = await _log_in(ctx, user)
    await ctx.store.codes.consume(phone, code_hash, key_id)
    return answer


@handler(functions.auth.LogOut, before_login=True)
async def log_out(ctx: Context, request: functions.auth.LogOut) -> types.auth.LoggedOut:
    """Logs the device out; nothing of the account reaches it any more. The last one out leaves it offline."""
    user_id = ctx.caller.user_id
    await _leave_account(ctx)
    if user_id is not None and not await ctx.store.accounts.authorizations(user_id):
        await set_offline(ctx.store, ctx.sessions, user_id, ctx.now())
        await tell_presence(ctx.store, ctx.sessions, user_id, ctx.now())
    return types.auth.LoggedOut()


@handler(functions.auth.ResetAuthorizations)
async def reset_authorizations(ctx: Context, request: functions.auth.ResetAuthorizations) -> bool:
    """Logs every other device of the account out."""
    removed = await ctx.store.accounts.reset_others(ctx.user_id, ctx.caller.auth_key_id)
    await ctx.sessions.log_out(removed)
    return True


@handler(functions.auth.BindTempAuthKey, before_login=True)
async def bind_temp_auth_key(ctx: Context, request: functions.auth.BindTempAuthKey) -> bool:
    """Makes the temporary key stand for the permanent one whose possession the request proves.

    *Spec: auth.bindTempAuthKey*
    """
    temp_id = ctx.caller.temp_auth_key_id
    if temp_id is None:
        raise bad_request("TEMP_AUTH_KEY_EMPTY")
    perm = await ctx.store.auth_keys.get(request.perm_auth_key_id)
    if perm is None or perm.expires_at is not None or request.expires_at <= ctx.now():
        raise bad_request("ENCRYPTED_MESSAGE_INVALID")
    try:
        verify_bind_temp_auth_key(
            AuthKey(perm.data),
            temp_id,
            ctx.caller.session_id,
            ctx.call.msg_id,
            request.nonce,
            request.expires_at,
            request.encrypted_message,
        )
    except ProtocolError as error:
        raise bad_request("ENCRYPTED_MESSAGE_INVALID") from error
    if not await ctx.store.auth_keys.bind(temp_id, perm.auth_key_id, request.expires_at):
        raise bad_request("TEMP_AUTH_KEY_ALREADY_BOUND")
    ctx.caller.auth_key_id = perm.auth_key_id
    await ctx.sessions.bind_temp_key(temp_id, perm.auth_key_id)
    return True


@handler(functions.auth.ExportLoginToken, before_login=True, stub=True)
async def export_login_token(ctx: Context, request: functions.auth.ExportLoginToken) -> types.auth.LoginToken:
    """Answers a token that nobody can accept: the client shows its page and offers the phone number."""
    return types.auth.LoginToken(expires=ctx.now() + LOGIN_TOKEN_S, token=secrets.token_bytes(32))


@handler(functions.auth.ImportLoginToken, before_login=True, stub=True)
async def import_login_token(ctx: Context, request: functions.auth.ImportLoginToken) -> object:
    """Refuses: no token was ever accepted."""
    raise bad_request("AUTH_TOKEN_INVALID")


@handler(functions.auth.AcceptLoginToken, stub=True)
async def accept_login_token(ctx: Context, request: functions.auth.AcceptLoginToken) -> object:
    """Refuses: a login needs the phone number."""
    raise bad_request("AUTH_TOKEN_INVALIDX")


@handler(functions.auth.ExportAuthorization)
async def export_authorization(
    ctx: Context, request: functions.auth.ExportAuthorization
) -> types.auth.ExportedAuthorization:
    """Makes a token by which another key of the same device becomes logged in, once and soon."""
    if request.dc_id not in DC_IDS:
        raise bad_request("DC_ID_INVALID")
    token = exported_auth.seal(ctx.secret, ctx.user_id, ctx.now(), secrets.token_bytes(16))
    return types.auth.ExportedAuthorization(id=ctx.user_id, bytes=token)


@handler(functions.auth.ImportAuthorization, before_login=True)
async def import_authorization(
    ctx: Context, request: functions.auth.ImportAuthorization
) -> types.auth.Authorization:
    """Logs the key in with a token that was exported a moment ago; a token works once."""
    if not exported_auth.is_valid(ctx.secret, request.id, ctx.now(), request.bytes):
        raise bad_request("AUTH_BYTES_INVALID")
    if not await exported_auth.use_up(ctx.store, request.bytes):
        raise bad_request("AUTH_BYTES_INVALID")
    user = await ctx.store.users.get(request.id)
    if user is None or user.deleted:
        raise bad_request("USER_ID_INVALID")
    return await _log_in(ctx, user)


@handler(functions.auth.ImportBotAuthorization, before_login=True, stub=True)
async def import_bot_authorization(ctx: Context, request: functions.auth.ImportBotAuthorization) -> object:
    """Refuses: there are no bots."""
    raise bad_request("ACCESS_TOKEN_INVALID")


@handler(functions.auth.CheckPassword, before_login=True, stub=True)
async def check_password(ctx: Context, request: functions.auth.CheckPassword) -> object:
    """Refuses: no account has a password."""
    raise bad_request("PASSWORD_HASH_INVALID")


def check_hash(phone_code_hash: str) -> None:
    if not phone_code_hash:
        raise bad_request("PHONE_CODE_HASH_EMPTY")


async def _send_to_devices(ctx: Context, user: User, code: LoginCode) -> None:
    """Writes the code into the account's chat with the service: its other devices show it."""
    text = (
        f"{_CODE_TITLE} {code.code}\n\nWhoever has this code can log in to your account: give it to nobody."
        " If you did not ask for it, leave this message alone."
    )
    title = Entity("bold", 0, len(_CODE_TITLE))
    await ctx.store.messages.send_service(user.user_id, text, (title,), ctx.now())


async def _tell_of_login(ctx: Context, user: User) -> None:
    """Writes into the account's chat with the service that a device logs in, before it does: a login that
    nobody could be told of does not happen.
    """
    client = ctx.caller.client
    when = datetime.datetime.fromtimestamp(ctx.now(), datetime.UTC).strftime("%d/%m/%Y at %H:%M:%S UTC")
    parts = (client.device_model, client.system_version, client.app_version)
    device = ", ".join(part for part in parts if part) or "unknown"
    text = (
        f"{_LOGIN_TITLE} Hello {user.first_name}, a new device logged in to your account on {when}."
        f"\n\nDevice: {device}\nAddress: {ctx.caller.ip or 'unknown'}\n\n"
        "If this was not you, end that session in Settings, under Devices (or Privacy and Security,"
        " Active Sessions)."
    )
    title = Entity("bold", 0, len(_LOGIN_TITLE))
    await ctx.store.messages.send_service(user.user_id, text, (title,), ctx.now())


async def asker_for(ctx: Context, phone: str) -> Asker:
    """Returns the caller as who asks for a code of *phone* or gives one."""
    user = await ctx.store.accounts.by_phone(phone)
    return _asker(ctx, [] if user is None else await ctx.store.accounts.authorizations(user.user_id))


def _asker(ctx: Context, devices: Collection[Authorization]) -> Asker:
    """Returns the caller, who is known when a device of the account is logged in from the same network."""
    network = network_of(ctx.caller.ip)
    known = network != "" and any(network_of(device.ip) == network for device in devices)
    return Asker(ctx.caller.auth_key_id, network, known)


async def send_by_sms(ctx: Context, code: LoginCode) -> types.auth.SentCode:
    """Takes the code to the phone.

    Raises:
        FloodWait: too many were; it is not.
    """
    await ctx.store.codes.text(code.phone, await asker_for(ctx, code.phone))
    ctx.codes.deliver(code.phone, code.code, code.expires_at)
    return types.auth.SentCode(
        type=types.auth.SentCodeTypeSms(length=code.length),
        phone_code_hash=code.phone_code_hash,
        next_type=types.auth.CodeTypeSms(),
        timeout=RESEND_AFTER_S,
    )


async def _leave_account(ctx: Context) -> None:
    """Logs the caller's key out of whatever account it is in."""
    caller = ctx.caller
    if caller.user_id is None:
        return
    await ctx.store.accounts.log_out(caller.auth_key_id)
    await ctx.sessions.log_out([caller.auth_key_id])
    caller.user_id = None


async def _log_in(ctx: Context, user: User) -> types.auth.Authorization:
    """Binds the caller's key to the account; a key that is in another one leaves it first."""
    caller = ctx.caller
    if caller.user_id is not None and caller.user_id != user.user_id:
        await _leave_account(ctx)
    try:
        await ctx.store.accounts.bind(caller.auth_key_id, user.user_id, caller.ip, caller.client)
    except PeerInvalid as error:
        raise bad_request("PHONE_NUMBER_UNOCCUPIED") from error
    caller.user_id = user.user_id
    await ctx.sessions.logged_in(caller.auth_key_id, user.user_id)
    return types.auth.Authorization(user=await self_to_tl(ctx))
