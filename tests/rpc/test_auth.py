"""Login and log-out, from the first code to the last device."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv import tl
from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.domain.users import AuthKeyRecord
from telesrv.mtproto.crypto import AuthKey, bare_msg_key_v1
from telesrv.rpc import Caller
from telesrv.tl import functions, mt, types
from tests.rpc.devices import Device, Refused, Server, serving
from tests.support.mtproto_v1 import encrypt_message_v1


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def test_a_new_number_signs_up(server: Server) -> None:
    device, phone = await server.device(), server.phone()
    sent = await device.send_code(f"+{phone[0]} {phone[1:4]} {phone[4:]}")
    [(to, code, expires_at)] = server.outbox.sent
    assert (to, expires_at > server.clock.time()) == (phone, True)
    assert sent.type == types.auth.SentCodeTypeSms(length=len(code))
    assert isinstance(
        await device.sign_in(phone, sent.phone_code_hash, code), types.auth.AuthorizationSignUpRequired
    )
    assert device.caller.user_id is None
    answer = await device.call(
        functions.auth.SignUp(
            phone_number=phone, phone_code_hash=sent.phone_code_hash, first_name=" Ada\0 ", last_name="L."
        )
    )
    user = answer.user
    assert (user.self_, user.first_name, user.last_name, user.phone) == (True, "Ada", "L.", phone)
    assert ("in", device.caller.auth_key_id, user.id) in server.sessions.told
    assert await device.call(functions.users.GetUsers(id=[types.InputUserSelf()])) == [user]


async def test_a_known_number_signs_in_and_the_code_goes_to_its_devices_and_its_sender(
    server: Server,
) -> None:
    first, phone = await server.account()
    second = await server.device()
    server.outbox.sent.clear()
    sent = await second.send_code(phone)
    assert isinstance(sent.type, types.auth.SentCodeTypeApp)
    assert isinstance(sent.next_type, types.auth.CodeTypeSms)
    await server.codes.drain()
    peer = Peer.user(SERVICE_USER_ID)
    page = await server.store.messages.history(
        first.user_id, peer, offset_id=0, offset_date=0, add_offset=0, limit=1, max_id=0, min_id=0
    )
    text = page.boxes[0].text
    code = "".join(c for c in text.split("\n")[0] if c.isdigit())
    assert len(code) == sent.type.length
    assert [(to, said) for to, said, _ in server.outbox.sent] == [(phone, code)]
    answer = await second.sign_in(phone, sent.phone_code_hash, code)
    assert answer.user.id == first.user_id


async def test_resend_goes_by_the_sender_under_the_same_hash(server: Server) -> None:
    _, phone = await server.account()
    second = await server.device()
    sent = await second.send_code(phone)
    again = await second.call(
        functions.auth.ResendCode(phone_number=phone, phone_code_hash=sent.phone_code_hash)
    )
    await server.codes.drain()
    assert isinstance(again.type, types.auth.SentCodeTypeSms)
    assert again.phone_code_hash == sent.phone_code_hash
    answer = await second.sign_in(phone, sent.phone_code_hash, server.outbox.sent[-1][1])
    assert isinstance(answer, types.auth.Authorization)


async def test_a_wrong_code_is_refused_and_a_used_one_too(server: Server) -> None:
    _, phone = await server.account()
    device = await server.device()
    sent = await device.send_code(phone)
    sent = await device.call(
        functions.auth.ResendCode(phone_number=phone, phone_code_hash=sent.phone_code_hash)
    )
    await server.codes.drain()
    code = server.outbox.sent[-1][1]
    wrong = str((int(code) + 1) % 10 ** len(code)).zfill(len(code))
    for bad in (wrong, "x\0", "12345678901234567890" * 10):
        with pytest.raises(Refused, match="400 PHONE_CODE_INVALID"):
            await device.sign_in(phone, sent.phone_code_hash, bad)
    with pytest.raises(Refused, match="400 PHONE_CODE_EMPTY"):
        await device.sign_in(phone, sent.phone_code_hash, "")
    with pytest.raises(Refused, match="400 PHONE_CODE_HASH_EMPTY"):
        await device.sign_in(phone, "", code)
    with pytest.raises(Refused, match="400 PHONE_CODE_EXPIRED"):
        await device.sign_in(phone, "another", code)
    other = await server.device()
    with pytest.raises(Refused, match="400 PHONE_CODE_EXPIRED"):
        await other.sign_in(phone, sent.phone_code_hash, code)


async def test_a_code_expires_and_can_be_cancelled(server: Server) -> None:
    _, phone = await server.account()
    device = await server.device()
    sent = await device.send_code(phone)
    assert await device.call(
        functions.auth.CancelCode(phone_number=phone, phone_code_hash=sent.phone_code_hash)
    )
    with pytest.raises(Refused, match="400 PHONE_CODE_EXPIRED"):
        await device.call(functions.auth.CancelCode(phone_number=phone, phone_code_hash="x"))
    sent = await device.send_code(phone)
    server.clock.advance(3600)
    with pytest.raises(Refused, match="400 PHONE_CODE_EXPIRED"):
        await device.sign_in(phone, sent.phone_code_hash, "12345")


async def test_signing_up_needs_the_code_and_a_name(server: Server) -> None:
    device, phone = await server.device(), server.phone()
    sent = await device.send_code(phone)

    async def sign_up(first_name: str, last_name: str = "") -> object:
        return await device.call(
            functions.auth.SignUp(
                phone_number=phone,
                phone_code_hash=sent.phone_code_hash,
                first_name=first_name,
                last_name=last_name,
            )
        )

    with pytest.raises(Refused, match="400 PHONE_CODE_EXPIRED"):
        await sign_up("Ada")
    await device.sign_in(phone, sent.phone_code_hash, server.outbox.sent[-1][1])
    for name in ("", " \u200b\u202e\0", "x" * 65):
        with pytest.raises(Refused, match="400 FIRSTNAME_INVALID"):
            await sign_up(name)
    with pytest.raises(Refused, match="400 LASTNAME_INVALID"):
        await sign_up("Ada", "x" * 65)
    await sign_up("Ada")
    late = await server.device()
    with pytest.raises(Refused, match="400 PHONE_CODE_EXPIRED"):
        await late.call(
            functions.auth.SignUp(
                phone_number=phone, phone_code_hash=sent.phone_code_hash, first_name="Eve", last_name=""
            )
        )


async def test_what_is_no_number_is_refused(server: Server) -> None:
    device = await server.device()
    for phone in ["", "abc", "0", "+", "1" * 40, "12\x0034567", "１２３４５６７"]:
        with pytest.raises(Refused, match="400 PHONE_NUMBER_INVALID"):
            await device.send_code(phone)
    with pytest.raises(Refused, match="400 PHONE_NUMBER_BANNED"):
        await device.send_code("42777")


async def test_codes_are_limited(server: Server) -> None:
    device, phone = await server.device(), server.phone()
    with pytest.raises(Refused, match=r"420 FLOOD_WAIT_\d+"):
        for _ in range(100):
            await device.send_code(phone)


async def test_log_out_ends_it_for_this_key_only(server: Server) -> None:
    first, phone = await server.account()
    second = await server.log_in(phone)
    user_id = first.user_id
    assert isinstance(await first.call(functions.auth.LogOut()), types.auth.LoggedOut)
    assert server.sessions.told[-1] == ("out", first.caller.auth_key_id)
    with pytest.raises(Refused, match="401 AUTH_KEY_UNREGISTERED"):
        await first.call(functions.users.GetUsers(id=[types.InputUserSelf()]))
    assert isinstance(await first.call(functions.auth.LogOut()), types.auth.LoggedOut)
    [me] = await second.call(functions.users.GetUsers(id=[types.InputUserSelf()]))
    assert me.id == user_id


async def test_another_login_on_the_same_key_leaves_the_first_account(server: Server) -> None:
    device, _ = await server.account("Ada")
    ada = device.user_id
    await device.sign_up(server.phone(), "Bob")
    assert device.user_id != ada
    told = server.sessions.told
    key = device.caller.auth_key_id
    assert told.index(("out", key)) < told.index(("in", key, device.user_id))
    assert await server.store.accounts.authorizations(ada) == []


async def test_devices_are_listed_and_reset(server: Server) -> None:
    first, phone = await server.account()
    second, third = await server.log_in(phone), await server.log_in(phone)
    answer = await first.call(functions.account.GetAuthorizations())
    assert [a.current for a in answer.authorizations].count(True) == 1
    [mine] = [a for a in answer.authorizations if a.current]
    assert (mine.hash, mine.ip) == (0, "203.0.113.7")
    others = [a.hash for a in answer.authorizations if not a.current]
    assert len(others) == 2 and 0 not in others
    assert await first.call(functions.account.ResetAuthorization(hash=others[0]))
    for bad in (others[0], 0, 1, -(2**63)):
        with pytest.raises(Refused, match="400 HASH_INVALID"):
            await first.call(functions.account.ResetAuthorization(hash=bad))
    assert await first.call(functions.auth.ResetAuthorizations())
    for device in (second, third):
        with pytest.raises(Refused, match="401 AUTH_KEY_UNREGISTERED"):
            await device.call(functions.account.GetAuthorizations())
    assert len((await first.call(functions.account.GetAuthorizations())).authorizations) == 1


async def test_a_foreign_device_cannot_be_reset(server: Server) -> None:
    ada, _ = await server.account()
    bob, bobs_phone = await server.account()
    await server.log_in(bobs_phone)
    answer = await bob.call(functions.account.GetAuthorizations())
    foreign = next(a.hash for a in answer.authorizations if a.hash)
    with pytest.raises(Refused, match="400 HASH_INVALID"):
        await ada.call(functions.account.ResetAuthorization(hash=foreign))


async def test_an_exported_login_works_once_and_soon(server: Server) -> None:
    device, _ = await server.account()
    exported = await device.call(functions.auth.ExportAuthorization(dc_id=4))
    media, late, thief = await server.device(), await server.device(), await server.device()
    method = functions.auth.ImportAuthorization(id=exported.id, bytes=exported.bytes)
    one_bit_off = exported.bytes[:-1] + bytes([exported.bytes[-1] ^ 1])
    for bad in (
        functions.auth.ImportAuthorization(id=exported.id + 1, bytes=exported.bytes),
        functions.auth.ImportAuthorization(id=exported.id, bytes=one_bit_off),
        functions.auth.ImportAuthorization(id=exported.id, bytes=b""),
    ):
        with pytest.raises(Refused, match="400 AUTH_BYTES_INVALID"):
            await thief.call(bad)
    assert (await media.call(method)).user.id == device.user_id
    with pytest.raises(Refused, match="400 AUTH_BYTES_INVALID"):
        await thief.call(method)
    again = await device.call(functions.auth.ExportAuthorization(dc_id=4))
    server.clock.advance(600)
    with pytest.raises(Refused, match="400 AUTH_BYTES_INVALID"):
        await late.call(functions.auth.ImportAuthorization(id=again.id, bytes=again.bytes))
    with pytest.raises(Refused, match="400 DC_ID_INVALID"):
        await device.call(functions.auth.ExportAuthorization(dc_id=6))


async def test_what_is_not_here_is_refused_by_name(server: Server) -> None:
    device = await server.device()
    token = await device.call(functions.auth.ExportLoginToken(api_id=1, api_hash="", except_ids=[]))
    assert token.expires > server.clock.time() and len(token.token) == 32
    with pytest.raises(Refused, match="400 AUTH_TOKEN_INVALID"):
        await device.call(functions.auth.ImportLoginToken(token=token.token))
    with pytest.raises(Refused, match="400 ACCESS_TOKEN_INVALID"):
        await device.call(
            functions.auth.ImportBotAuthorization(flags=0, api_id=1, api_hash="", bot_auth_token="1:a")
        )
    with pytest.raises(Refused, match="400 PASSWORD_HASH_INVALID"):
        await device.call(functions.auth.CheckPassword(password=types.InputCheckPasswordEmpty()))


# Temporary keys

TEMP_ID = 77


async def temporary(server: Server, perm: Device) -> Device:
    """Returns a device over a temporary key that no permanent key is bound to."""
    now = int(server.clock.time())
    record = AuthKeyRecord(
        auth_key_id=TEMP_ID, data=bytes(range(256)), created_at=now, expires_at=now + 86_400, dc_id=2
    )
    assert await server.store.auth_keys.save(record)
    caller = Caller(auth_key_id=TEMP_ID, temp_auth_key_id=TEMP_ID, session_id=99)
    return Device(server, caller)


async def permanent(server: Server) -> tuple[Device, AuthKey]:
    """Returns a logged-in device whose key has real bytes."""
    key = AuthKey(bytes(reversed(range(256))))
    record = AuthKeyRecord(auth_key_id=key.id, data=key.data, created_at=0, expires_at=None, dc_id=2)
    assert await server.store.auth_keys.save(record)
    device = Device(server, Caller(auth_key_id=key.id, session_id=3, layer=tl.LAYER))
    await device.sign_up(server.phone())
    return device, key


def bind_request(
    key: AuthKey, msg_id: int, expires_at: int, *, nonce: int = 5, session_id: int = 99
) -> functions.auth.BindTempAuthKey:
    inner = tl.write(
        mt.BindAuthKeyInner(
            nonce=nonce,
            temp_auth_key_id=TEMP_ID,
            perm_auth_key_id=key.id,
            temp_session_id=session_id,
            expires_at=expires_at,
        )
    )
    plain = bytes(16) + struct.pack("<qii", msg_id, 0, len(inner)) + inner
    assert len(bare_msg_key_v1(plain)) == 16
    return functions.auth.BindTempAuthKey(
        perm_auth_key_id=key.id,
        nonce=5,
        expires_at=expires_at,
        encrypted_message=encrypt_message_v1(key, plain, from_server=False, padding=bytes(8)),
    )


async def test_a_temporary_key_stands_for_the_permanent_one_once_it_is_bound(server: Server) -> None:
    perm, key = await permanent(server)
    temp = await temporary(server, perm)
    with pytest.raises(Refused, match="401 AUTH_KEY_PERM_EMPTY"):
        await temp.call(functions.users.GetUsers(id=[types.InputUserSelf()]))
    with pytest.raises(Refused, match="401 AUTH_KEY_PERM_EMPTY"):
        await temp.send_code("15550009000")
    exported = await perm.call(functions.auth.ExportAuthorization(dc_id=1))
    with pytest.raises(Refused, match="401 AUTH_KEY_PERM_EMPTY"):
        await temp.call(functions.auth.ImportAuthorization(id=exported.id, bytes=exported.bytes))
    assert isinstance(await temp.call(functions.help.GetConfig()), types.Config)
    wrapped = functions.InvokeWithLayer(layer=158, query=functions.help.GetConfig())
    await temp.raw(tl.write(wrapped))
    expires_at = int(server.clock.time()) + 3600
    assert await temp.call(bind_request(key, 4096, expires_at), msg_id=4096) is True
    assert ("bind", TEMP_ID, key.id) in server.sessions.told
    assert temp.caller.auth_key_id == key.id
    [me] = await temp.call(functions.users.GetUsers(id=[types.InputUserSelf()]))
    assert me.id == perm.user_id
    record = await server.store.auth_keys.get(key.id)
    assert record is not None and record.layer == 158
    assert await temp.call(bind_request(key, 8192, expires_at), msg_id=8192) is True


async def test_a_binding_that_proves_nothing_is_refused(server: Server) -> None:
    perm, key = await permanent(server)
    temp = await temporary(server, perm)
    now = int(server.clock.time())
    good = bind_request(key, 4096, now + 3600)
    broken = bind_request(key, 4096, now + 3600)
    broken.encrypted_message = good.encrypted_message[:-1] + bytes([good.encrypted_message[-1] ^ 1])
    short = bind_request(key, 4096, now + 3600)
    short.encrypted_message = b""
    unknown = bind_request(key, 4096, now + 3600)
    unknown.perm_auth_key_id = 12345
    for bad in (
        broken,
        short,
        unknown,
        bind_request(key, 4096, now),
        bind_request(key, 4096, now + 3600, nonce=6),
        bind_request(key, 4096, now + 3600, session_id=98),
    ):
        with pytest.raises(Refused, match="400 ENCRYPTED_MESSAGE_INVALID"):
            await temp.call(bad, msg_id=4096)
    with pytest.raises(Refused, match="400 ENCRYPTED_MESSAGE_INVALID"):
        await temp.call(good, msg_id=4100)
    with pytest.raises(Refused, match="400 TEMP_AUTH_KEY_EMPTY"):
        await perm.call(good, msg_id=4096)
    assert temp.caller.unbound


async def test_a_bound_key_is_not_bound_to_another(server: Server) -> None:
    perm, key = await permanent(server)
    temp = await temporary(server, perm)
    expires_at = int(server.clock.time()) + 3600
    await temp.call(bind_request(key, 4096, expires_at), msg_id=4096)
    other = AuthKey(bytes(256))
    record = AuthKeyRecord(auth_key_id=other.id, data=other.data, created_at=0, expires_at=None, dc_id=2)
    await server.store.auth_keys.save(record)
    with pytest.raises(Refused, match="400 TEMP_AUTH_KEY_ALREADY_BOUND"):
        await temp.call(bind_request(other, 8192, expires_at), msg_id=8192)


async def test_an_account_that_is_deleted_meanwhile_is_none(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, phone = await server.account()
    second = await server.device()
    sent = await second.send_code(phone)
    code = "".join(c for c in (await newest_notice(server, first.user_id)).split("\n")[0] if c.isdigit())
    consume = server.store.codes.consume

    async def deleted_then(*args: Any, **options: Any) -> bool:
        assert await first.call(functions.account.DeleteAccount(reason=""))
        return await consume(*args, **options)

    monkeypatch.setattr(server.store.codes, "consume", deleted_then)
    with pytest.raises(Refused, match="400 PHONE_NUMBER_UNOCCUPIED"):
        await second.sign_in(phone, sent.phone_code_hash, code)


async def newest_notice(server: Server, user_id: int) -> str:
    """Returns what the service wrote to the account last."""
    page = await server.store.messages.history(user_id, Peer.user(SERVICE_USER_ID), limit=1)
    return page.boxes[0].text


async def ask_until_refused(server: Server, phone: str, address: str) -> int:
    """Asks for codes with ever new keys; returns how many times that was answered."""
    for answered in range(1_000):
        stranger = await server.device()
        stranger.caller.ip = address
        try:
            await stranger.send_code(phone)
        except Refused as refused:
            assert str(refused).startswith("420 FLOOD_WAIT_")
            return answered
    raise AssertionError


async def test_strangers_cannot_keep_an_owner_from_logging_in(server: Server) -> None:
    ada, phone = await server.account("Ada")
    asked = [await ask_until_refused(server, phone, f"198.51.100.{number}") for number in range(8)]
    assert asked[0] == asked[1] > 0
    assert asked[-1] == 0, "strangers together have used up what they may"
    device = await server.device()  # at home, where the account has a device
    before = len(server.outbox.sent)
    sent = await device.send_code(phone)
    assert len(server.outbox.sent) == before + 1, "known networks have texts of their own"
    code = "".join(c for c in (await newest_notice(server, ada.user_id)).split("\n")[0] if c.isdigit())
    answer = await device.sign_in(phone, sent.phone_code_hash, code)
    assert answer.user.id == ada.user_id


async def test_wrong_guesses_of_strangers_do_not_count_against_the_owner(server: Server) -> None:
    ada, phone = await server.account("Ada")
    for number in range(8):
        stranger = await server.device()
        stranger.caller.ip = f"198.51.100.{number}"
        sent = await stranger.send_code(phone)
        for _ in range(5):
            with pytest.raises(Refused, match=r"400 PHONE_CODE_INVALID|420 FLOOD_WAIT_"):
                await stranger.sign_in(phone, sent.phone_code_hash, "wrong")
    device = await server.log_in(phone)
    assert device.user_id == ada.user_id
