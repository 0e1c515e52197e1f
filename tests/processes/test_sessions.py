"""A session goes on in whatever worker its client lands; requests run once; pushes reach every worker."""

from __future__ import annotations

import asyncio

from telesrv import tl
from telesrv.tl import functions, mt, types
from tests.processes.conftest import MakePerson
from tests.processes.person import Person, send_code
from tests.support.running import RunningServer


async def test_a_session_goes_on_in_every_worker(server: RunningServer, join: MakePerson) -> None:
    pids = server.worker_pids()
    anna, boris = await join(pids[0]), await join(pids[1])
    to_anna = await boris.peer(anna)
    highest = max(msg_id for msg_id, _ in anna.heard)
    seen = {msg_id for msg_id, _ in anna.heard}
    before = set(seen)
    for turn in range(9):
        await anna.close()
        await boris.say(to_anna, f"away {turn}")
        await anna.connect_to(pids[(turn + 1) % 3])
        await anna.ping()  # not a request: the worker must know by itself whose session it is
        await boris.say(to_anna, f"back {turn}")
        await anna.hear(f"away {turn}")
        await anna.hear(f"back {turn}")
        fresh = {msg_id for msg_id, _ in anna.heard} - seen
        assert min(fresh) > highest
        highest, seen = max(fresh), seen | fresh
        if turn % 3 == 2:
            anna.acknowledge()
    later = [message for msg_id, message in anna.heard if msg_id not in before]
    assert not any(isinstance(m, mt.NewSessionCreated | types.UpdatesTooLong) for m in later)


async def test_who_writes_after_going_offline_is_online_whichever_workers_those_are(
    server: RunningServer, join: MakePerson
) -> None:
    """Each worker notes seldom that somebody is active, and has to hear that it is not so any more."""
    pids = server.worker_pids()
    anna, boris = await join(pids[0]), await join(pids[2])
    second = await join(pids[1], anna.phone)
    to_boris, to_anna = await anna.peer(boris), await boris.peer(anna)

    async def status() -> type:
        seen = types.InputUser(user_id=anna.user_id, access_hash=to_anna.access_hash)
        (user,) = (await boris.ask(functions.users.GetFullUser(id=seen))).users
        return type(user.status)

    async def write(person: Person) -> None:
        await person.say(to_boris, "here")
        assert await status() is types.UserStatusOnline

    async def leave(person: Person) -> None:
        assert await person.ask(functions.account.UpdateStatus(offline=True)) is True
        assert await status() is types.UserStatusOffline

    for writer, leaver in ((anna, second), (second, anna), (anna, anna), (anna, second)):
        await write(writer)
        await leave(leaver)
        await write(writer)
    await second.close()
    for pid in (pids[1], pids[0], pids[2], pids[0]):  # one session that moves, and has left where it was
        await anna.connect_to(pid)
        await leave(anna)
        await write(anna)


async def test_a_request_runs_once_wherever_it_is_repeated(server: RunningServer, join: MakePerson) -> None:
    pids = server.worker_pids()
    anna = await join(pids[0])
    query = send_code()
    msg_id, seq_no = anna.next_msg_id(), anna.next_seq_no()
    answers = []
    for turn in range(4):
        await anna.connect_to(pids[turn % 3])
        anna.send(query, msg_id=msg_id, seq_no=seq_no)
        answers.append(await anna.result_of(msg_id))
    assert isinstance(answers[0], types.auth.SentCode)
    assert all(answer == answers[0] for answer in answers)


async def test_a_request_under_way_is_answered_where_the_client_went(
    server: RunningServer, join: MakePerson
) -> None:
    pids = server.worker_pids()
    anna = await join(pids[0])
    for turn in range(6):
        requests = {anna.next_msg_id(): anna.next_seq_no() for _ in range(20)}
        for msg_id, seq_no in requests.items():
            anna.send(functions.help.GetConfig(), msg_id=msg_id, seq_no=seq_no)
        assert anna.link is not None
        await anna.link.writer.drain()
        await anna.connect_to(pids[(turn + 1) % 3])
        await anna.ping()
        answered = {message[1] for _, message in anna.heard if isinstance(message, tuple)}
        for msg_id, seq_no in requests.items():
            if msg_id not in answered:  # the broken link may have swallowed it: a client repeats it
                anna.send(functions.help.GetConfig(), msg_id=msg_id, seq_no=seq_no)
                assert isinstance(await anna.result_of(msg_id), types.Config)
    assert len({msg_id for msg_id, m in anna.heard if isinstance(m, mt.NewSessionCreated)}) == 1


async def test_two_links_at_once_make_one_session(server: RunningServer, join: MakePerson) -> None:
    pids = server.worker_pids()
    anna = await join(pids[0])
    boris = await join(pids[1])
    to_anna = await boris.peer(anna)
    before = {msg_id for msg_id, _ in anna.heard}
    await anna.close()
    twins = []
    for pid in pids[1:]:
        await anna.connect_to(pid)
        twins.append(anna.link)
        anna.link = None
    for twin in twins:
        assert twin is not None
        twin.send(anna.packet(tl.write(mt.Ping(ping_id=5))))
    await asyncio.gather(*(twin.receive() for twin in twins if twin is not None))
    await anna.connect_to(pids[0])
    await anna.ping()
    await boris.say(to_anna, "one of you")
    await anna.hear("one of you")
    later = [message for msg_id, message in anna.heard if msg_id not in before]
    assert not any(isinstance(m, mt.NewSessionCreated) for m in later)
    for twin in twins:
        assert twin is not None
        await twin.close()


async def test_pushes_reach_the_devices_of_every_worker_but_the_one_that_knows(
    server: RunningServer, join: MakePerson
) -> None:
    pids = server.worker_pids()
    anna = await join(pids[0])
    devices = [anna, await join(pids[1], anna.phone), await join(pids[2], anna.phone)]
    boris = await join(pids[1])
    to_anna, to_boris = await boris.peer(anna), await devices[2].peer(boris)
    for turn in range(3):
        await boris.say(to_anna, f"in {turn}")
        await devices[2].say(to_boris, f"out {turn}")
    await boris.say(to_anna, "last")
    expected = [text for turn in range(3) for text in (f"in {turn}", f"out {turn}")] + ["last"]
    for device in devices:
        await device.hear("last")
    assert [t for t in devices[0].texts() if t in expected] == expected
    assert [t for t in devices[1].texts() if t in expected] == expected
    assert [t for t in devices[2].texts() if t in expected] == [t for t in expected if "out" not in t]


async def test_typing_crosses_workers(server: RunningServer, join: MakePerson) -> None:
    pids = server.worker_pids()
    anna, boris = await join(pids[0]), await join(pids[2])
    to_anna = await boris.peer(anna)
    await anna.peer(boris)
    assert await boris.ask(functions.messages.SetTyping(peer=to_anna, action=types.SendMessageTypingAction()))
    push = await anna.wait_for(types.UpdateShort)
    while not isinstance(push.update, types.UpdateUserTyping):
        push = await anna.wait_for(types.UpdateShort)
    assert push.update.user_id == boris.user_id


async def test_a_log_out_ends_updates_in_every_worker_at_once(
    server: RunningServer, join: MakePerson
) -> None:
    pids = server.worker_pids()
    anna = await join(pids[0])
    lost, kept = await join(pids[1], anna.phone), await join(pids[1], anna.phone)
    boris = await join(pids[2])
    to_anna = await boris.peer(anna)
    await boris.say(to_anna, "to all")
    for device in (anna, lost, kept):
        await device.hear("to all")
    # A device sees itself with hash 0: the one that both others see is the lost one.
    (target,) = (await hashes(anna) & await hashes(kept)) - {0}
    assert await anna.ask(functions.account.ResetAuthorization(hash=target)) is True
    await boris.say(to_anna, "to those who stayed")
    await kept.hear("to those who stayed")
    await lost.ping()
    assert "to those who stayed" not in lost.texts()
    refused = await lost.ask(functions.updates.GetState())
    assert isinstance(refused, mt.RpcError)
    assert refused.error_code == 401


async def test_a_log_out_reaches_a_session_on_its_way(server: RunningServer, join: MakePerson) -> None:
    pids = server.worker_pids()
    anna = await join(pids[0])
    away = await join(pids[1], anna.phone)
    boris = await join(pids[2])
    to_anna = await boris.peer(anna)
    await away.close()
    await boris.say(to_anna, "held back")
    await anna.hear("held back")
    assert await anna.ask(functions.auth.ResetAuthorizations()) is True
    await away.connect_to(pids[2])
    await away.ping()
    assert "held back" not in away.texts()


async def test_a_key_is_bound_in_every_worker(server: RunningServer, join: MakePerson) -> None:
    pids = server.worker_pids()
    anna, boris = await join(pids[0]), await join(pids[1])
    to_anna = await boris.peer(anna)
    main, media = Person(server), Person(server)
    await main.take_temporary_key()
    media.auth_key = main.auth_key
    for session, pid in ((main, pids[1]), (media, pids[2])):
        await session.connect_to(pid)
        await session.learn_salt()
        refused = await session.ask(functions.updates.GetState())
        assert isinstance(refused, mt.RpcError)
        assert refused.error_message == "AUTH_KEY_PERM_EMPTY"
    assert anna.auth_key is not None
    await main.bind(anna.auth_key)
    for session in (media, main):
        assert isinstance(await session.ask(functions.updates.GetState()), types.updates.State)
    await boris.say(to_anna, "to every session")
    for session in (anna, main, media):
        await session.hear("to every session")
    await main.connect_to(pids[2])
    await main.ping()
    await boris.say(to_anna, "also after a move")
    await main.hear("also after a move")
    for session in (main, media):
        await session.close()


async def other_session(of: Person, server: RunningServer, pid: int) -> Person:
    """Returns another session of a device, in that worker."""
    other = Person(server)
    other.auth_key, other.salt = of.auth_key, of.salt
    await other.connect_to(pid)
    assert isinstance(await other.ask(functions.updates.GetState()), types.updates.State)
    return other


async def destroy(person: Person, session_id: int) -> object:
    """Has the person's other session destroyed; returns the answer."""
    person.send(mt.DestroySession(session_id=session_id), seq_no=person.next_seq_no())
    while True:
        messages = await person.receive()
        assert messages is not None
        for _, message in messages:
            if isinstance(message, mt.DestroySessionOk | mt.DestroySessionNone):
                assert message.session_id == session_id
                return type(message)


async def test_a_session_is_destroyed_in_whatever_worker_it_is(
    server: RunningServer, join: MakePerson
) -> None:
    pids = server.worker_pids()
    anna = await join(pids[0])
    for pid in pids:
        for linked in (True, False):
            other = await other_session(anna, server, pid)
            msg_id = other.next_msg_id()
            captured = other.packet(tl.write(send_code()), msg_id=msg_id)
            assert other.link is not None
            other.link.send(captured)
            assert isinstance(await other.result_of(msg_id), types.auth.SentCode)
            if not linked:
                await other.close()
            assert await destroy(anna, other.session_id) is mt.DestroySessionOk
            assert await destroy(anna, other.session_id) is mt.DestroySessionNone
            if linked:
                await other.receive_to_end()
            await other.connect_to(pids[1])
            other.link.send(captured)
            await other.wait_for(mt.BadMsgNotification, bad_msg_id=msg_id, error_code=16)
            await other.ping()
            assert len({heard for heard, m in other.heard if isinstance(m, mt.NewSessionCreated)}) == 2
            await other.close()
    assert await destroy(anna, anna.session_id) is mt.DestroySessionNone
    assert await destroy(anna, 1) is mt.DestroySessionNone
    boris = await join(pids[1])
    assert await destroy(boris, anna.session_id) is mt.DestroySessionNone
    await anna.ping()


async def hashes(device: Person) -> set[int]:
    """Returns the devices of the account, as this one sees them."""
    answer = await device.ask(functions.account.GetAuthorizations())
    return {authorization.hash for authorization in answer.authorizations}
