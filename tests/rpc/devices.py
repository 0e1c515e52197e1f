"""Devices that do everything through the dispatcher, from the first call before login on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from telesrv import tl
from telesrv.clock import FakeClock
from telesrv.domain.users import AuthKeyRecord
from telesrv.rpc import Caller, Dispatcher, RpcConfig
from telesrv.store import Store, StoreConfig
from telesrv.tl import functions, mt, types

_RPC_ERROR = tl.write(mt.RpcError(error_code=400, error_message=""))[:4]


class Refused(Exception):
    """The call was answered by rpc_error."""

    def __init__(self, error: mt.RpcError) -> None:
        super().__init__(f"{error.error_code} {error.error_message}")


@dataclass
class Sessions:
    """The hub's side of the port: keeps what it was told, in order."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    async def bind_temp_key(self, temp_auth_key_id: int, perm_auth_key_id: int) -> None:
        self.told.append(("bind", temp_auth_key_id, perm_auth_key_id))

    async def logged_in(self, auth_key_id: int, user_id: int) -> None:
        self.told.append(("in", auth_key_id, user_id))

    async def log_out(self, auth_key_ids: Iterable[int]) -> None:
        self.told.append(("out", *sorted(auth_key_ids)))

    async def noticed(self, auth_key_id: int, user_id: int | None) -> None:
        self.told.append(("out", auth_key_id) if user_id is None else ("in", auth_key_id, user_id))

    async def went_offline(self, user_id: int) -> None: ...

    async def with_sessions(self, user_ids: Collection[int]) -> list[int]:
        return list(user_ids)

    async def push_transient(
        self, user_id: int, update: types.TypeUpdate, exclude: tuple[int, int] | None = None
    ) -> None:
        self.told.append(("push", user_id, update))


@dataclass
class Outbox:
    """A code sender that keeps what it was given."""

    sent: list[tuple[str, str, int]] = field(default_factory=list)

    async def send(self, phone: str, code: str, expires_at: int) -> bool:
        self.sent.append((phone, code, expires_at))
        return True


class Device:
    """One session over a permanent key of its own."""

    def __init__(self, server: Server, caller: Caller) -> None:
        self.server = server
        self.caller = caller

    @property
    def user_id(self) -> int:
        assert self.caller.user_id is not None
        return self.caller.user_id

    async def raw(self, body: bytes, msg_id: int = 0) -> tuple[bytes, bool]:
        call = self.server.dispatcher.parse(body)
        call.msg_id = msg_id
        outcome = await self.server.dispatcher.execute(call, self.caller)
        return outcome.body, outcome.ok

    async def call(self, method: Any, msg_id: int = 0) -> Any:
        """Returns the answer as this device reads it; raises Refused for an rpc_error."""
        body, ok = await self.raw(tl.write(method), msg_id)
        if body[:4] == _RPC_ERROR:
            assert not ok
            error = tl.read(body)
            assert isinstance(error, mt.RpcError)
            raise Refused(error)
        assert ok
        return tl.read_result(body, method.RESULT)

    async def send_code(self, phone: str) -> types.auth.SentCode:
        settings = types.CodeSettings()
        method = functions.auth.SendCode(phone_number=phone, api_id=1, api_hash="", settings=settings)
        answer = await self.call(method)
        await self.server.codes.drain()
        assert isinstance(answer, types.auth.SentCode)
        return answer

    async def sign_in(self, phone: str, code_hash: str, code: str) -> Any:
        return await self.call(
            functions.auth.SignIn(phone_number=phone, phone_code_hash=code_hash, phone_code=code)
        )

    async def sign_up(
        self, phone: str, first_name: str = "Ada", last_name: str = "", quiet: bool = False
    ) -> None:
        """Makes the account of the number through the whole login."""
        sent = await self.send_code(phone)
        await self.sign_in(phone, sent.phone_code_hash, self.server.outbox.sent[-1][1])
        await self.call(
            functions.auth.SignUp(
                no_joined_notifications=quiet,
                phone_number=phone,
                phone_code_hash=sent.phone_code_hash,
                first_name=first_name,
                last_name=last_name,
            )
        )

    async def input_user(self, phone: str) -> types.InputUser:
        """Returns how this device names the account of the number."""
        found = await self.call(functions.contacts.ResolvePhone(phone=phone))
        [user] = found.users
        return types.InputUser(user_id=user.id, access_hash=user.access_hash)


@dataclass
class Server:
    """A dispatcher over a store of the test's own."""

    store: Store
    clock: FakeClock
    sessions: Sessions
    outbox: Outbox
    dispatcher: Dispatcher
    _keys: count[int] = field(default_factory=lambda: count(1_001))
    _phones: count[int] = field(default_factory=lambda: count(15_550_000_001))

    @property
    def codes(self) -> Any:
        return self.dispatcher._codes

    def phone(self) -> str:
        """Returns a number that nobody has."""
        return str(next(self._phones))

    async def device(self) -> Device:
        """Returns a device with a new permanent key, not logged in."""
        key_id = next(self._keys)
        record = AuthKeyRecord(
            auth_key_id=key_id, data=key_id.to_bytes(256, "little"), created_at=0, expires_at=None, dc_id=2
        )
        assert await self.store.auth_keys.save(record)
        caller = Caller(auth_key_id=key_id, session_id=key_id + 5_000_000, layer=tl.LAYER, ip="203.0.113.7")
        return Device(self, caller)

    async def account(self, first_name: str = "Ada", last_name: str = "") -> tuple[Device, str]:
        """Returns a device of a new account, and its number."""
        device, phone = await self.device(), self.phone()
        await device.sign_up(phone, first_name, last_name)
        return device, phone

    async def log_in(self, phone: str) -> Device:
        """Returns a new device of the account of that number; its code comes by the sender."""
        device = await self.device()
        sent = await device.send_code(phone)
        if isinstance(sent.type, types.auth.SentCodeTypeApp):
            sent = await device.call(
                functions.auth.ResendCode(phone_number=phone, phone_code_hash=sent.phone_code_hash)
            )
            await self.codes.drain()
        await device.sign_in(phone, sent.phone_code_hash, self.outbox.sent[-1][1])
        return device


@asynccontextmanager
async def serving(
    postgres_dsn: str, redis_url: str, redis_prefix: str, **settings: Any
) -> AsyncIterator[Server]:
    """A server over this database, closed afterwards."""
    clock = FakeClock()
    store = await Store.open(
        StoreConfig(
            postgres_dsn=postgres_dsn,
            redis_url=redis_url,
            redis_prefix=redis_prefix,
            clock=clock,
            min_conns=1,
            max_conns=4,
            **settings,
        )
    )
    sessions, outbox = Sessions(), Outbox()
    config = RpcConfig(advertise_ip="192.0.2.1", port=2398)
    dispatcher = Dispatcher(store, config, clock, sessions, outbox)
    try:
        yield Server(store, clock, sessions, outbox, dispatcher)
    finally:
        await dispatcher.close()
        await store.close()


def ids(users: Collection[Any]) -> list[int]:
    """Returns the ids of the users of an answer."""
    return [user.id for user in users]
