"""All that is due happens by itself in a process that runs the timers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest

from telesrv.domain.scheduled import WHEN_ONLINE
from telesrv.domain.updates import bucket_of
from telesrv.outbox.timers import Timers
from telesrv.store.signals import GROWN
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Server, running
from tests.support.waiting import until

f: Any = functions
NUMBER = "17770001"
MOMENT_S = 600

Made = Callable[[], Awaitable[Any]]
"""Tells whether it has happened."""


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def texts(device: Device, other: Device) -> list[str]:
    return [message.message for message in (await device.history(other)).messages]


async def a_time_comes(server: Server, ada: Device, bob: Device) -> Made:
    await ada.send(bob, "at its time", schedule_date=int(server.clock.time()) + MOMENT_S - 1)

    async def sent() -> bool:
        return "at its time" in await texts(bob, ada)

    return sent


async def somebody_is_online(server: Server, ada: Device, bob: Device) -> Made:
    await ada.send(bob, "are you there?", schedule_date=WHEN_ONLINE)
    # As another process notes it that dies before it lets the message go.
    await server.store.presence.set_online(bob.user_id, int(server.clock.time()) + 2 * MOMENT_S)
    server.store.until_online._bucket = bucket_of(bob.user_id)  # it looks at one a turn

    async def sent() -> bool:
        return "are you there?" in await texts(bob, ada)

    return sent


async def a_message_expires(server: Server, ada: Device, bob: Device) -> Made:
    await ada.call(f.messages.SetHistoryTTL(peer=ada.peer(bob), period=MOMENT_S - 1))
    await ada.send(bob, "for a while")

    async def gone() -> bool:
        return not (await bob.history(ada)).messages

    return gone


async def somebody_signs_up(server: Server, ada: Device, bob: Device) -> Made:
    contact = types.InputPhoneContact(client_id=1, phone=NUMBER, first_name="Cid", last_name="")
    await ada.call(f.contacts.ImportContacts(contacts=[contact]))
    user = await server.store.accounts.sign_up(NUMBER, "Cid")

    async def listed() -> bool:
        book = (await ada.call(f.contacts.GetContacts(hash=0))).contacts
        return [entry.user_id for entry in book] == [user.user_id]

    return listed


async def messages_come(server: Server, ada: Device, bob: Device) -> Made:
    await ada.send(bob, "one of very many")
    server.store.signals.grew(bob.user_id, GROWN)

    async def indexed() -> bool:
        sql = "SELECT box_id FROM search_marks WHERE owner_user_id = $1"
        return bool(await server.store.pool.fetchval(sql, bob.user_id))

    return indexed


DUE: Final = (a_time_comes, somebody_is_online, a_message_expires, somebody_signs_up, messages_come)


@pytest.mark.parametrize("happens", DUE)
async def test_what_is_due_happens(
    server: Server, happens: Callable[[Server, Device, Device], Awaitable[Made]]
) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    happened = await happens(server, ada, bob)
    assert not await happened()
    server.clock.advance(MOMENT_S)
    timers = Timers(server.store)
    timers.start()
    try:
        await until(happened, happens.__name__)
    finally:
        await timers.stop()
