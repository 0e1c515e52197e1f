"""Two accounts, two devices each, clients that were never changed for this server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from telethon.network import (
    ConnectionTcpAbridged,
    ConnectionTcpFull,
    ConnectionTcpIntermediate,
    ConnectionTcpObfuscated,
)

from tests.clients.conftest import MakeProcess, MakeTelethon, new_phone
from tests.support.running import RunningServer

EACH_WAY = 200


async def test_two_accounts_on_two_devices_each_miss_nothing(
    telethon: MakeTelethon, pyrogram_like: MakeProcess, server: RunningServer
) -> None:
    alice_phone, bob_phone = new_phone(), new_phone()
    alice_1, alice_2 = await telethon(), await pyrogram_like("kurigram")
    bob_1, bob_2 = await pyrogram_like("kurigram"), await telethon()
    alice = await alice_1.log_in(alice_phone, "Alice")
    bob = await bob_1.log_in(bob_phone, "Bob")
    assert await alice_2.log_in(alice_phone) == alice
    assert await bob_2.log_in(bob_phone) == bob
    alices: list[Any] = [alice_1, alice_2]
    bobs: list[Any] = [bob_1, bob_2]
    for device in alices:
        assert await device.import_contact(bob_phone, "Bob") == bob
    for device in bobs:
        assert await device.import_contact(alice_phone, "Alice") == alice

    async def talk(device: Any, name: str, to: int, start: int, count: int) -> list[int]:
        ids: list[int] = []
        for n in range(start, start + count):
            reply_to = ids[-1] if ids and n % 5 == 0 else None
            ids.append(await device.send(to, f"{name} {n}", reply_to))
        return ids

    async def everybody_talks(start: int, count: int) -> None:
        await asyncio.gather(
            talk(alice_1, "A1", bob, start, count),
            talk(alice_2, "A2", bob, start, count),
            talk(bob_1, "B1", alice, start, count),
            talk(bob_2, "B2", alice, start, count),
        )

    half = EACH_WAY // 4
    await everybody_talks(0, half)
    for device in (*alices, *bobs):
        assert await device.wait_for_messages(4 * half)

    # One device is away during the second half; the other device of its account talks for both.
    await bob_2.go_away()
    await asyncio.gather(
        talk(alice_1, "A1", bob, half, half),
        talk(alice_2, "A2", bob, half, half),
        talk(bob_1, "B1", alice, half, 2 * half),
    )
    total = 2 * EACH_WAY
    for device in (alice_1, alice_2, bob_1):
        assert await device.wait_for_messages(total)
    bob_top = max(int(key) for key in (await bob_1.snapshot())["messages"])
    alice_top = max(int(key) for key in (await alice_1.snapshot())["messages"])
    await bob_1.read(alice, bob_top)
    alice_read = max(
        int(key) for key, message in (await alice_1.snapshot())["messages"].items() if message["out"]
    )
    for device in alices:
        assert await device.wait_for_read_outbox(alice_read)
    await alice_1.read(bob, alice_top)
    assert await alice_2.wait_for_read_inbox(alice_top)
    bob_read = max(
        int(key) for key, message in (await bob_1.snapshot())["messages"].items() if message["out"]
    )
    assert await bob_1.wait_for_read_outbox(bob_read)

    await bob_2.come_back()
    assert await bob_2.wait_for_messages(total)
    assert await bob_2.wait_for_read_inbox(bob_top)
    assert await bob_2.wait_for_read_outbox(bob_read)

    for devices, peer in ((alices, bob), (bobs, alice)):
        first, second = [await device.snapshot() for device in devices]
        assert first == second
        assert len(first["messages"]) == total
        for device in devices:
            assert await device.history(peer) == first["messages"]
        dialogs = [await device.dialog(peer) for device in devices]
        assert dialogs[0] == dialogs[1]
        assert dialogs[0]["unread"] == 0
        assert await devices[0].pts() == await devices[1].pts()
    texts = [
        sorted(message["text"] for message in (await device.snapshot())["messages"].values())
        for device in (alice_1, bob_1)
    ]
    assert texts[0] == texts[1]

    # A third client, of a layer seventy older, logs in afresh and reads the same history.
    old = await pyrogram_like("pyrogram")
    assert await old.log_in(alice_phone) == alice
    assert await old.import_contact(bob_phone, "Bob") == bob
    assert await old.history(bob) == (await alice_1.snapshot())["messages"]


@pytest.mark.parametrize(
    "connection",
    [ConnectionTcpFull, ConnectionTcpAbridged, ConnectionTcpIntermediate, ConnectionTcpObfuscated],
)
async def test_telethon_speaks_every_framing_it_knows(telethon: MakeTelethon, connection: Any) -> None:
    device = await telethon(connection=connection)
    await device.log_in(new_phone(), "Framed")
    message_id = await device.send(device.user_id, "a note to self")
    assert (await device.history(device.user_id))[str(message_id)]["text"] == "a note to self"


@pytest.mark.parametrize("environment", ["kurigram", "pyrogram"])
@pytest.mark.parametrize(
    "framing", ["abridged", "full", "intermediate", "obfuscated abridged", "obfuscated intermediate"]
)
async def test_pyrogram_family_speaks_every_framing_it_knows(
    pyrogram_like: MakeProcess, environment: str, framing: str
) -> None:
    device = await pyrogram_like(environment, framing)
    user_id = await device.log_in(new_phone(), "Framed")
    for chat in (user_id, "me"):
        message_id = await device.send(chat, "a note to self")
        assert (await device.history(user_id))[str(message_id)]["text"] == "a note to self"
