"""Batches that fail, links that break, and queues that close."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import Unavailable
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind
from telesrv.store import Store, StoreConfig
from tests.store.world import ANNA, BORIS, CLARA, add_users, deliver_all, log_of, request, send, send_many
from tests.support.waiting import available

FAIL_TWICE = """
CREATE SEQUENCE failures;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('failures') <= 2 THEN {failure}; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE INSERT ON user_update_events FOR EACH ROW EXECUTE FUNCTION fail();
"""


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA)


async def assert_one_each(store: Store, clock: FakeClock, number: int) -> None:
    """Both sides have the messages once, in order, and contiguous logs."""
    clock.advance(store.config.reservation_s + 1)
    await store.updates.sweep()
    for owner, other in ((ANNA, BORIS), (BORIS, ANNA)):
        page = await store.messages.history(owner, Peer.user(other))
        assert page.total == number
        assert [box.text for box in reversed(page.boxes)] == [f"message {i}" for i in range(number)]
        events = await log_of(store, owner)
        assert [event.pts for event in events] == list(range(1, len(events) + 1))
        assert [event.kind for event in events].count(EventKind.NEW_MESSAGE) == number
    assert (await store.dialogs.page(BORIS)).dialogs[0].unread_count == number
    await deliver_all(store)
    assert (await store.outbox.stats()).waiting == 0


@pytest.mark.parametrize("state", ["40P01", "40001", "XX000"])
async def test_a_batch_that_fails_for_no_fault_is_tried_again(
    store: Store, clock: FakeClock, state: str
) -> None:
    failure = f"RAISE EXCEPTION 'again' USING ERRCODE = '{state}'"
    await fail_twice(store, failure)
    sent = await send_many(store, ANNA, BORIS, 20)
    assert not any(one.duplicate for one in sent)
    await assert_one_each(store, clock, 20)


async def test_a_connection_that_dies_before_the_commit_is_tried_again(
    store: Store, clock: FakeClock
) -> None:
    await fail_twice(store, "PERFORM pg_terminate_backend(pg_backend_pid())")
    await send_many(store, ANNA, BORIS, 20)
    await assert_one_each(store, clock, 20)


async def fail_twice(store: Store, failure: str) -> None:
    """Has the next two inserts of events fail."""
    async with store.pool.acquire() as connection:
        await connection.execute(FAIL_TWICE.replace("{failure}", failure))


WRITTEN = b"D\0\0\0\x0e\0\x01\0\0\0\x04\0\0\0\x01C"
"""How PostgreSQL answers a statement of one row, 1: it has committed the batch."""


class CommitCutter:
    """A link to PostgreSQL that breaks when the answer to a written batch passes, while it is armed."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.armed = 0
        self.cuts = 0
        self.is_down = False
        self._pumps: set[asyncio.Task[None]] = set()

    def go_down(self) -> None:
        """Breaks every connection, and each new one, until `is_down` is unset."""
        self.is_down = True
        for pump in self._pumps:
            pump.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.close()
            return
        up_reader, up_writer = await asyncio.open_unix_connection(self._target)
        with closing(writer), closing(up_writer):
            pumps = [
                asyncio.create_task(self._pump(reader, up_writer, is_answer=False)),
                asyncio.create_task(self._pump(up_reader, writer, is_answer=True)),
            ]
            self._pumps.update(pumps)
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            self._pumps.difference_update(pumps)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        while data := await reader.read(65536):
            if is_answer and self.armed and WRITTEN in data:
                self.armed -= 1
                self.cuts += 1
                return
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def behind_cutter(config: StoreConfig) -> AsyncIterator[tuple[Store, CommitCutter]]:
    """A store whose PostgreSQL connections go through a cutter."""
    url = urlsplit(config.postgres_dsn)
    query = dict(parse_qsl(url.query))
    cutter = CommitCutter(f"{query['host']}/.s.PGSQL.{query.get('port', '5432')}")
    with TemporaryDirectory() as directory:
        server = await asyncio.start_unix_server(cutter.serve, Path(directory) / ".s.PGSQL.5432")
        query |= {"host": directory, "port": "5432"}
        dsn = urlunsplit(url._replace(query=urlencode(query)))
        store: Store = await available(lambda: Store.open(replace(config, postgres_dsn=dsn)))
        try:
            yield store, cutter
        finally:
            await store.close()
            server.close()


async def test_a_commit_whose_answer_is_lost_is_found(
    store: Store, store_config: StoreConfig, clock: FakeClock
) -> None:
    async with behind_cutter(store_config) as (cut, cutter):
        await send(cut, ANNA, BORIS, "message 0")
        cutter.armed = 1
        sent = [await send(cut, ANNA, BORIS, "message 1")]
        sent += await asyncio.gather(*(send(cut, ANNA, BORIS, f"message {i}") for i in range(2, 12)))
        assert cutter.cuts == 1
    assert [one.box.box_id for one in sent] == list(range(2, 13))
    await assert_one_each(store, clock, 12)


async def test_postgres_that_goes_and_comes_back(
    store: Store, store_config: StoreConfig, clock: FakeClock
) -> None:
    async with behind_cutter(replace(store_config, wait_s=0.2)) as (cut, cutter):
        zero, one = [request(ANNA, BORIS, f"message {number}") for number in range(2)]
        await available(lambda: cut.messages.send(zero))
        cutter.go_down()
        for action in (cut.messages.send(one), cut.updates.state(ANNA), cut.outbox.claim({1})):
            with pytest.raises(Unavailable):
                await action
        cutter.is_down = False
        assert (await available(lambda: cut.messages.send(one))).box.text == "message 1"
    await assert_one_each(store, clock, 2)


async def test_redis_away_is_unavailable_and_writes_nothing(store_config: StoreConfig, store: Store) -> None:
    with pytest.raises(Unavailable):
        await Store.open(replace(store_config, redis_url="redis://127.0.0.1:1/0", wait_s=0.1))
    assert (await store.updates.state(ANNA)).pts == 0


async def test_postgres_away_is_unavailable(store_config: StoreConfig) -> None:
    with pytest.raises(Unavailable):
        await Store.open(replace(store_config, postgres_dsn="postgresql://127.0.0.1:1/x", wait_s=0.1))


async def test_two_processes_send_one_random_id_once(store: Store, store_config: StoreConfig) -> None:
    other = await Store.open(replace(store_config, node=2))
    try:
        requests = [request(ANNA, BORIS, f"message {i}") for i in range(30)]
        answers = await asyncio.gather(
            *(one.messages.send(each) for each in requests for one in (store, other))
        )
    finally:
        await other.close()
    by_random_id = {(answer.box.box_id, answer.pts) for answer in answers}
    assert len(by_random_id) == 30
    assert (await store.messages.history(BORIS, Peer.user(ANNA))).total == 30
    events = await log_of(store, BORIS)
    assert [event.pts for event in events] == list(range(1, len(events) + 1))


async def test_a_cancelled_caller_does_not_undo_its_message(store: Store) -> None:
    one = request(ANNA, BORIS)
    task = asyncio.create_task(store.messages.send(one))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.messages.send(one)
    assert (await store.messages.history(BORIS, Peer.user(ANNA))).total == 1


async def test_closing_writes_what_waits(store: Store, store_config: StoreConfig, clock: FakeClock) -> None:
    closing_store = await Store.open(store_config)
    sends = [asyncio.create_task(send(closing_store, ANNA, BORIS, f"message {i}")) for i in range(40)]
    await asyncio.sleep(0)
    await closing_store.close()
    assert len(await asyncio.gather(*sends)) == 40
    with pytest.raises(Unavailable):
        await send(closing_store, ANNA, BORIS)
    await assert_one_each(store, clock, 40)


async def test_a_caller_that_left_is_waited_for_all_the_same(store: Store) -> None:
    """A chat is read to its end, whatever becomes of who still waits for an answer."""
    async with store.pool.transaction() as connection:
        await connection.execute("LOCK TABLE private_messages")
        sending = asyncio.create_task(send(store, ANNA, BORIS))
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        settled = asyncio.create_task(store.sends.settled(ANNA))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not settled.done()
    await settled
    assert (await store.messages.history(ANNA, Peer.user(BORIS))).total == 1
    await store.sends.settled(ANNA)
