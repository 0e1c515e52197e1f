"""Workers that die, hang or are replaced, and a Redis that forgets: nothing is missed, nothing runs twice."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial
from pathlib import Path

import asyncpg
import redis.asyncio

from telesrv import tl
from telesrv.platform import discover
from telesrv.tl import functions, mt, types
from tests.clients.telethon_peer import TelethonPeer
from tests.processes.conftest import MakePerson
from tests.processes.person import PHONES, Person, send_code
from tests.support.running import JUST_ENDED, RunningServer
from tests.support.waiting import until

PACE_S = 0.05
"""Between two messages of one sender: enough traffic, and time for what it is to disturb."""


async def three_workers(server: RunningServer, *, without: int = 0) -> list[int]:
    """Returns the workers once there are three, all of them serving."""

    def serving() -> list[int]:
        pids = server.worker_pids()
        listening = [pid for pid in pids if pid != without and listens(pid, server.port)]
        return listening if len(listening) == 3 else []

    pids: list[int] = await until(serving, "three workers")
    return pids


def listens(pid: int, port: int) -> bool:
    """Tells whether the process lives and has a listening socket at the port."""
    sockets = set()
    try:
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(f":{port:04X}") and fields[3] == "0A":
                sockets.add(f"socket:[{fields[9]}]")
        return any(str(descriptor.readlink()) in sockets for descriptor in Path(f"/proc/{pid}/fd").iterdir())
    except JUST_ENDED:
        return False


async def test_a_killed_worker_takes_nothing_along(server: RunningServer, join: MakePerson) -> None:
    pids = await three_workers(server)
    anna, boris = await join(pids[0]), await join(pids[1])
    to_anna = await boris.peer(anna)
    msg_id = anna.next_msg_id()
    captured = anna.packet(tl.write(send_code()), msg_id=msg_id)
    assert anna.link is not None
    anna.link.send(captured)
    assert isinstance(await anna.result_of(msg_id), types.auth.SentCode)
    state = await anna.ask(functions.updates.GetState())
    unanswered = server.log_text().count("another node did not answer")
    os.kill(pids[0], signal.SIGKILL)
    await boris.say(to_anna, "after the crash")
    before = {heard_id for heard_id, _ in anna.heard}
    await anna.connect_to(pids[2])
    anna.link.send(captured)
    notice = await anna.wait_for(mt.BadMsgNotification, bad_msg_id=msg_id)
    assert notice.error_code == 16
    difference = await anna.ask(
        functions.updates.GetDifference(pts=state.pts, date=state.date, qts=state.qts)
    )
    assert [message.message for message in difference.new_messages] == ["after the crash"]
    fresh = [message for heard_id, message in anna.heard if heard_id not in before]
    assert sum(isinstance(message, mt.NewSessionCreated) for message in fresh) == 1
    assert not any(isinstance(m, tuple) and m[1] == msg_id for m in fresh)
    await boris.say(to_anna, "pushed again")
    await anna.hear("pushed again")
    await three_workers(server, without=pids[0])
    # Nobody waited for the dead one to answer: they all heard that it is gone.
    assert server.log_text().count("another node did not answer") == unanswered


async def test_what_a_killed_worker_was_sending_is_sent_once_by_another(
    server: RunningServer, join: MakePerson
) -> None:
    """A message whose time has come is held up in the worker that leased it, and the lease is a long one."""
    pids = await three_workers(server)
    anna, boris = await join(), await join()
    later = functions.messages.SendMessage(
        peer=await anna.peer(boris),
        message="its time has come",
        random_id=anna.next_random_id(),
        schedule_date=int(time.time()) + 86_400,
    )
    assert isinstance(await anna.ask(later), types.Updates)
    endpoints = discover(server.data_dir)
    assert endpoints is not None
    connection = await asyncpg.connect(endpoints.postgres_dsn)
    try:
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM private_messages WHERE sender_user_id = $1 FOR UPDATE", anna.user_id
            )
            pid = await until(
                partial(sender_of, endpoints.postgres_dsn, anna.user_id), "a worker that sends it"
            )
            os.kill(pid, signal.SIGKILL)
        finished = "SELECT state = 1 FROM scheduled_messages WHERE owner_user_id = $1"
        await until(lambda: connection.fetchval(finished, anna.user_id), "another worker")
    finally:
        await connection.close()
    survivor = next(other for other in pids if other != pid)
    for person, other in ((anna, boris), (boris, anna)):
        await person.connect_to(survivor)
        history = functions.messages.GetHistory(
            peer=await person.peer(other),
            **dict.fromkeys(("offset_id", "offset_date", "add_offset", "max_id", "min_id", "hash"), 0),
            limit=10,
        )
        texts = [message.message for message in (await person.ask(history)).messages]
        assert texts == ["its time has come"]
    await three_workers(server, without=pid)


async def sender_of(dsn: str, user_id: int) -> int | None:
    """Makes due what waits of the account, with a lease that does not end by itself; returns whose it is."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "UPDATE scheduled_messages SET due_date = 0 WHERE owner_user_id = $1 AND due_date > 0", user_id
        )
        return await connection.fetchval(
            "UPDATE scheduled_messages s SET leased_until_ms = 9e15::bigint FROM nodes n "
            "WHERE n.holder = s.leased_by AND s.owner_user_id = $1 RETURNING n.pid",
            user_id,
        )
    finally:
        await connection.close()


async def test_a_hanging_worker_is_passed_over_and_lets_go(server: RunningServer, join: MakePerson) -> None:
    pids = await three_workers(server)
    anna, boris = await join(pids[0]), await join(pids[1])
    to_anna = await boris.peer(anna)
    old = anna.link
    assert old is not None
    anna.link = None
    os.kill(pids[0], signal.SIGSTOP)
    try:
        await anna.connect_to(pids[2])
        anna.send(functions.help.GetConfig())
        await anna.wait_for(mt.NewSessionCreated)
        await boris.say(to_anna, "past the one that hangs")
        await anna.hear("past the one that hangs")
    finally:
        os.kill(pids[0], signal.SIGCONT)
    while await old.receive() is not None:
        pass  # what was on its way; then it closes: the session is another's
    await old.close()
    before = {heard_id for heard_id, _ in anna.heard}
    await anna.connect_to(pids[0])
    await boris.say(to_anna, "and it serves again")
    await anna.ping()
    await anna.hear("and it serves again")
    fresh = [message for heard_id, message in anna.heard if heard_id not in before]
    assert not any(isinstance(message, mt.NewSessionCreated) for message in fresh)


async def test_a_worker_whose_number_is_another_s_ends(server: RunningServer, join: MakePerson) -> None:
    pids = await three_workers(server)
    anna, boris = await join(pids[0]), await join(pids[1])
    to_anna = await boris.peer(anna)
    endpoints = discover(server.data_dir)
    assert endpoints is not None
    connection = await asyncpg.connect(endpoints.postgres_dsn)
    try:
        await connection.execute("UPDATE nodes SET holder = 'another' WHERE pid = $1", pids[0])
    finally:
        await connection.close()
    await anna.receive_to_end()
    new = await three_workers(server, without=pids[0])
    await anna.connect_to(*(set(new) - set(pids)))
    await anna.ask(functions.updates.GetState())
    assert len({heard_id for heard_id, m in anna.heard if isinstance(m, mt.NewSessionCreated)}) == 2
    await boris.say(to_anna, "with a number of its own")
    await anna.hear("with a number of its own")


async def test_redis_forgets_everything(server: RunningServer, join: MakePerson) -> None:
    pids = await three_workers(server)
    anna = await join(pids[0])
    devices = [anna, await join(pids[1], anna.phone), await join(pids[2], anna.phone)]
    boris = await join(pids[1])
    to_anna = await boris.peer(anna)
    states = [await device.ask(functions.updates.GetState()) for device in devices]
    endpoints = discover(server.data_dir)
    assert endpoints is not None
    client = redis.asyncio.Redis.from_url(endpoints.redis_url)
    await client.flushall()
    await client.aclose()
    await boris.say(to_anna, "while nobody knew where")
    for device, state in zip(devices, states, strict=True):
        await device.wait_for(types.UpdatesTooLong)
        difference = await device.ask(
            functions.updates.GetDifference(pts=state.pts, date=state.date, qts=state.qts)
        )
        assert [message.message for message in difference.new_messages] == ["while nobody knew where"]
    await boris.say(to_anna, "and on it goes")
    for device in devices:
        await device.hear("and on it goes")
    # The entries are there again: a session moves as ever.
    before = {heard_id for heard_id, _ in anna.heard}
    await anna.connect_to(pids[2])
    await anna.ping()
    fresh = [message for heard_id, message in anna.heard if heard_id not in before]
    assert not any(isinstance(message, mt.NewSessionCreated) for message in fresh)


async def chat(sender: TelethonPeer, user_id: int, ended: asyncio.Event) -> int:
    """Sends one text after the other until told; returns how many."""
    count = 0
    while not ended.is_set():
        await sender.send(user_id, f"text {count}")
        count += 1
        await asyncio.sleep(PACE_S)
    return count


async def test_workers_are_replaced_under_traffic(server: RunningServer, join: MakePerson) -> None:
    old = await three_workers(server)
    raw, friend = await join(old[0]), await join(old[1])
    to_raw = await friend.peer(raw)
    peers = [TelethonPeer(server.port) for _ in range(3)]
    anna, boris, second = peers
    phones = [f"{next(PHONES)}" for _ in range(2)]
    await anna.log_in(phones[0], "Anna")
    await boris.log_in(phones[1], "Boris")
    await second.log_in(phones[1])
    await anna.import_contact(phones[1], "Boris")
    ended = asyncio.Event()
    talk = asyncio.create_task(chat(anna, boris.user_id, ended))
    before = {heard_id for heard_id, _ in raw.heard}
    replaced = server.log_text().count("workers replaced")
    assert server.process is not None
    server.process.send_signal(signal.SIGUSR2)
    listener = asyncio.create_task(stay(raw))
    count = 0
    while server.log_text().count("workers replaced") == replaced:
        await say_again(friend, to_raw, f"raw {count}")
        count += 1
        await asyncio.sleep(PACE_S)
    ended.set()
    new = await three_workers(server)
    assert not set(new) & set(old)
    # Telethon begins a new session with each link, and does not ask what it missed before the next message.
    for peer in (boris, second):
        await peer.pts()
    await anna.send(boris.user_id, "the last")
    sent = await talk + 1
    await say_again(friend, to_raw, "raw end")
    await raw_hears(raw, listener, "raw end")
    for peer in (boris, second):
        assert await peer.wait_for_messages(sent)
        assert not peer.mirror.duplicates
        assert (await peer.snapshot())["messages"] == await boris.history(anna.user_id)
    assert (await anna.snapshot())["messages"] == await anna.history(boris.user_id)
    for peer in peers:
        await peer.close()
    fresh = [message for heard_id, message in raw.heard if heard_id not in before]
    noticed = [m for m in fresh if isinstance(m, mt.NewSessionCreated | types.UpdatesTooLong)]
    assert not noticed, f"{noticed}\n{server.log_text()[-6000:]}"
    # A push that a leaving worker did not take comes again behind its successors: clients order by pts.
    pushed = {
        update.pts: update.message.message
        for _, message in raw.heard
        for update in getattr(message, "updates", ())
        if isinstance(update, types.UpdateNewMessage)
    }
    texts = [pushed[pts] for pts in sorted(pushed) if pushed[pts].startswith("raw ")]
    assert texts == [*(f"raw {number}" for number in range(count)), "raw end"]


async def test_workers_that_die_while_they_are_replaced(server: RunningServer) -> None:
    replaced = server.log_text().count("workers replaced")
    old = await three_workers(server)
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    assert server.process is not None
    server.process.send_signal(signal.SIGUSR2)
    await until(lambda: server.log_text().count("workers replaced") > replaced, "three successors")
    await until(server.is_ready, "the server to say that it is ready")
    assert not set(await three_workers(server)) & set(old)


async def test_no_worker_is_replaced_while_the_database_lacks_a_migration(server: RunningServer) -> None:
    replaced = server.log_text().count("workers replaced")
    old = await three_workers(server)
    endpoints = discover(server.data_dir)
    assert endpoints is not None
    connection = await asyncpg.connect(endpoints.postgres_dsn)
    try:
        row = await connection.fetchrow(
            "DELETE FROM schema_migrations WHERE number IN (SELECT max(number) FROM schema_migrations) "
            "RETURNING *"
        )
        assert row is not None
        assert server.process is not None
        server.process.send_signal(signal.SIGUSR2)
        await until(lambda: "no worker was replaced" in server.log_text(), "the refusal")
        await connection.execute("INSERT INTO schema_migrations VALUES ($1, $2, $3, $4)", *row)
    finally:
        await connection.close()
    assert f"the database lacks {row['name']}" in server.log_text()
    assert server.log_text().count("workers replaced") == replaced
    assert await three_workers(server) == old


async def stay(person: Person) -> None:
    """Connects again whenever the server closes; acknowledges what comes, and asks for nothing."""
    while True:
        if await person.receive() is None:
            await person.connect()
            person.send(mt.Ping(ping_id=1))  # says whose link it is, to a worker that may be leaving too
        person.acknowledge()


async def raw_hears(person: Person, listener: asyncio.Task[None], text: str) -> None:
    """Returns once *listener* has taken a message with this text."""
    await until(lambda: listener.done() or text in person.texts(), text)
    listener.cancel()
    await asyncio.wait([listener])
    assert listener.cancelled(), listener.exception()


async def say_again(person: Person, peer: types.InputPeerUser, text: str) -> None:
    """Sends a text, over as many links as it takes, as one request."""
    query = functions.messages.SendMessage(peer=peer, message=text, random_id=person.next_random_id())
    msg_id, seq_no = person.next_msg_id(), person.next_seq_no()
    while True:
        assert person.link is not None
        person.send(query, msg_id=msg_id, seq_no=seq_no)
        answer = await person.maybe_result_of(msg_id)
        if answer is not None:
            assert not isinstance(answer, mt.RpcError), answer
            return
        await person.connect()
