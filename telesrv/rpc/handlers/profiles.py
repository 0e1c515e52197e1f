"""What the caller's account has beside its names: birthday, phone number, lifetime; and its end.

*Spec: account.updateBirthday; account.changePhone; account.setAccountTTL; account.deleteAccount*
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Final

from telesrv.domain.users import DAY_S, DEFAULT_TTL_DAYS, Birthday
from telesrv.rpc.convert.users import SERVICE_PHONE, birthday_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.handlers.account import PROFILE_CHANGES_PER_HOUR
from telesrv.rpc.handlers.auth import asker_for, check_hash, phone_of, send_by_sms
from telesrv.rpc.registry import handler
from telesrv.rpc.views import self_to_tl, users_to_tl
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

TTL_DAYS: Final = range(30, 731)
FIRST_BIRTH_YEAR: Final = 1900
LEAP_YEAR: Final = 2000
DELETION_STEPS: Final = 20
"""How many batches of others the call itself tells; the keeper of accounts tells the rest."""


@handler(functions.account.UpdateBirthday)
async def update_birthday(ctx: Context, request: functions.account.UpdateBirthday) -> bool:
    """Sets the caller's birthday, or takes it away.

    Raises:
        RpcError: 400 BIRTHDAY_INVALID.
    """
    birthday = None
    if request.birthday is not None:
        birthday = Birthday(request.birthday.day, request.birthday.month, request.birthday.year or 0)
        if not _is_day(birthday, ctx.now()):
            raise bad_request("BIRTHDAY_INVALID")
    await ctx.store.limits.hit("account:profile", ctx.user_id, PROFILE_CHANGES_PER_HOUR, 3600)
    await ctx.store.profiles.set_birthday(ctx.user_id, birthday)
    return True


@handler(functions.contacts.GetBirthdays)
async def get_birthdays(
    ctx: Context, request: functions.contacts.GetBirthdays
) -> types.contacts.ContactBirthdays:
    """Answers the contacts who have their birthday about today, as far as they tell the caller."""
    book = await ctx.store.contacts.list(ctx.user_id)
    views = await ctx.store.users.views(ctx.user_id, [entry.contact_user_id for entry in book])
    days = {
        (day.day, day.month)
        for offset_s in (-DAY_S, 0, DAY_S)
        for day in [datetime.datetime.fromtimestamp(ctx.now() + offset_s, datetime.UTC)]
    }
    found = {
        user_id: birthday
        for user_id, view in views.items()
        if not view.user.deleted
        and (birthday := view.birthday) is not None
        and (birthday.day, birthday.month) in days
    }
    return types.contacts.ContactBirthdays(
        contacts=[
            types.ContactBirthday(contact_id=user_id, birthday=birthday_to_tl(birthday))
            for user_id, birthday in found.items()
        ],
        users=await users_to_tl(ctx, found),
    )


@handler(functions.account.GetAccountTTL)
async def get_account_ttl(ctx: Context, request: functions.account.GetAccountTTL) -> types.AccountDaysTTL:
    """Answers after how many days without use the account is deleted."""
    user = await ctx.store.users.get(ctx.user_id)
    return types.AccountDaysTTL(days=DEFAULT_TTL_DAYS if user is None else user.ttl_days)


@handler(functions.account.SetAccountTTL)
async def set_account_ttl(ctx: Context, request: functions.account.SetAccountTTL) -> bool:
    """Sets after how many days without use the account is deleted.

    Raises:
        RpcError: 400 TTL_DAYS_INVALID: not 30 to 730.
    """
    if request.ttl.days not in TTL_DAYS:
        raise bad_request("TTL_DAYS_INVALID")
    await ctx.store.profiles.set_ttl(ctx.user_id, request.ttl.days)
    return True


@handler(functions.account.SendChangePhoneCode)
async def send_change_phone_code(
    ctx: Context, request: functions.account.SendChangePhoneCode
) -> types.auth.SentCode:
    """Sends a code to the number that the caller wants to have.

    Raises:
        RpcError: 400 PHONE_NUMBER_INVALID, PHONE_NUMBER_BANNED, PHONE_NUMBER_OCCUPIED.
    """
    phone = phone_of(request.phone_number)
    if phone == SERVICE_PHONE:
        raise bad_request("PHONE_NUMBER_BANNED")
    # Counted before it says whether the number has an account.
    code = await ctx.store.codes.create(phone, await asker_for(ctx, phone))
    if await ctx.store.accounts.by_phone(phone) is not None:
        raise bad_request("PHONE_NUMBER_OCCUPIED")
    return await send_by_sms(ctx, code)


@handler(functions.account.ChangePhone)
async def change_phone(ctx: Context, request: functions.account.ChangePhone) -> types.User:
    """Gives the account the number whose code the caller has.

    Raises:
        RpcError: 400 PHONE_NUMBER_INVALID, PHONE_CODE_EMPTY, PHONE_CODE_HASH_EMPTY, PHONE_CODE_INVALID,
            PHONE_CODE_EXPIRED, PHONE_NUMBER_OCCUPIED.
    """
    phone = phone_of(request.phone_number)
    if not request.phone_code:
        raise bad_request("PHONE_CODE_EMPTY")
    check_hash(request.phone_code_hash)
    code_hash = request.phone_code_hash
    asker = await asker_for(ctx, phone)
    await ctx.store.codes.check(phone, code_hash, request.phone_code, asker)
    if not await ctx.store.codes.consume(phone, code_hash, ctx.caller.auth_key_id):
        raise bad_request("PHONE_CODE_EXPIRED")
    await ctx.store.profiles.change_phone(ctx.user_id, phone)
    return await self_to_tl(ctx)


@handler(functions.account.DeleteAccount)
async def delete_account(ctx: Context, request: functions.account.DeleteAccount) -> bool:
    """Deletes the caller's account: its devices are logged out, its number and username are free, and others
    see that it is gone. Messages stay with those who have them.
    """
    user_id = ctx.user_id
    keys = await ctx.store.deletion.begin(user_id)
    await ctx.sessions.log_out(keys or [])
    ctx.caller.user_id = None
    for _ in range(DELETION_STEPS):
        if not await ctx.store.deletion.step(user_id):
            break
    return True


def _is_day(birthday: Birthday, now: int) -> bool:
    """Tells whether there is such a day, not in the future; without a year, whether there ever is."""
    try:
        day = datetime.date(birthday.year or LEAP_YEAR, birthday.month, birthday.day)
    except (ValueError, OverflowError):
        return False
    today = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
    return not birthday.year or (birthday.year >= FIRST_BIRTH_YEAR and day <= today)
