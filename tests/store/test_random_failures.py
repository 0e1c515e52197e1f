"""Whatever fails at random, in two processes at once: nothing is lost, doubled, out of order or unseen."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import Unavailable
from telesrv.domain.messages import SendRequest, SentMessage
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind
from telesrv.store import Store, StoreConfig
from telesrv.store.ids import RESERVED, Want
from tests.store.test_committer import CommitCutter, behind_cutter
from tests.store.world import DATE, add_users, deliver_all, log_of, request

PEOPLE = [7_001, 7_002, 7_003, 7_004]
STEPS = 40

FAIL_SOMETIMES = """
CREATE FUNCTION fail_sometimes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF random() < 0.01 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40P01'; END IF;
    IF random() < 0.003 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail_sometimes BEFORE INSERT ON user_update_events
FOR EACH ROW WHEN (NEW.kind <> 0) EXECUTE FUNCTION fail_sometimes();
"""


class Chaos:
    """Two processes, their accounts' sends and reads, and what breaks meanwhile."""

    def __init__(self, seed: int, processes: tuple[Store, Store], cutter: CommitCutter) -> None:
        self.chance = random.Random(seed)
        self.processes = processes
        self.cutter = cutter
        self.sent: dict[tuple[int, int], SentMessage] = {}
        self.requests: list[SendRequest] = []
        self.number = 0

    async def run(self) -> None:
        for _ in range(STEPS):
            actions = [self.send(), *(self.send() for _ in range(self.chance.randint(0, 8)))]
            actions += [self.read() for _ in range(self.chance.randint(0, 3))]
            if self.chance.random() < 0.5:
                actions.append(self.chance.choice([self.forget, self.turn_back, self.die, self.cut])())
            self.chance.shuffle(actions)
            await asyncio.gather(*actions)

    async def send(self) -> None:
        """Sends, and repeats as a client does, until there is an answer; here and there it is cancelled."""
        sender, receiver = self.chance.sample(PEOPLE, 2)
        self.number += 1
        one = request(sender, receiver, f"{self.number}")
        self.requests.append(one)
        store = self.chance.choice(self.processes)
        if self.chance.random() < 0.1:
            task = asyncio.create_task(store.messages.send(one))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        while True:
            with suppress(Unavailable):
                sent = await store.messages.send(one)
                break
            store = self.chance.choice(self.processes)
        self.sent[sender, one.random_id] = sent

    async def read(self) -> None:
        owner, other = self.chance.sample(PEOPLE, 2)
        up_to = self.chance.choice([0, self.chance.randint(1, 200)])
        with suppress(Unavailable):
            await self.chance.choice(self.processes).messages.read(owner, Peer.user(other), up_to, date=DATE)

    async def forget(self) -> None:
        """Redis loses everything."""
        redis = self.processes[0].redis
        keys = [key async for key in redis.client.scan_iter(match=redis.key("*"))]
        if keys:
            await redis.client.delete(*keys)

    async def turn_back(self) -> None:
        """Redis comes back with an old copy."""
        redis = self.processes[0].redis
        for user_id in PEOPLE:
            for name in ("pts", "box_id"):
                key = redis.key("counter", name, user_id)
                value = await redis.client.get(key)
                if value:
                    await redis.client.set(key, self.chance.randint(0, int(value)))

    async def die(self) -> None:
        """A writer takes ids and is never heard of again."""
        users = self.chance.sample(PEOPLE, 2)
        wants = [Want(user_id, pts=self.chance.randint(1, 3), box_ids=1) for user_id in users]
        await self.chance.choice(self.processes).ids.take(wants)

    async def cut(self) -> None:
        """The answer to a commit is lost."""
        self.cutter.armed += 1


@pytest.mark.parametrize("seed", range(3))
async def test_random_failures(store: Store, store_config: StoreConfig, clock: FakeClock, seed: int) -> None:
    await add_users(store, *PEOPLE)
    await store.pool.execute(FAIL_SOMETIMES.partition("CREATE TRIGGER")[0])
    await store.pool.execute("CREATE TRIGGER" + FAIL_SOMETIMES.partition("CREATE TRIGGER")[2])
    async with behind_cutter(replace(store_config, node=2)) as (other, cutter):
        chaos = Chaos(seed, (store, other), cutter)
        await chaos.run()
        cutter.armed = 0
    await store.pool.execute("DROP TRIGGER fail_sometimes ON user_update_events")
    for _ in range(3):
        clock.advance(2 * store.config.reservation_s + 1)
        for user_id in PEOPLE:
            await store.updates.state(user_id)
        await store.updates.sweep()
    await assert_sound(store, chaos)


async def assert_sound(store: Store, chaos: Chaos) -> None:
    """Compares what is stored with what was answered."""
    assert len(chaos.sent) == len(chaos.requests)
    assert await store.pool.fetchval("SELECT count(*) FROM private_messages") == len(chaos.requests)
    _, gaps = await store.gaps.find()
    assert gaps == []
    for user_id in PEOPLE:
        events = await log_of(store, user_id)
        assert [event.pts for event in events] == list(range(1, len(events) + 1))
        shown = [event.box_id for event in events if event.kind is EventKind.NEW_MESSAGE]
        assert len(shown) == len(set(shown))
        boxes = {}
        for start in range(0, len(shown), 1000):
            boxes.update(await store.messages.get(user_id, shown[start : start + 1000]))
        texts = sorted(int(box.text) for box in boxes.values())
        expected = [one for one in chaos.requests if user_id in (one.sender_user_id, one.peer.id)]
        assert texts == sorted(int(one.text) for one in expected)
        for one in expected:
            if one.sender_user_id == user_id:
                sent = chaos.sent[user_id, one.random_id]
                assert boxes[sent.box.box_id].text == one.text
        for dialog in (await store.dialogs.page(user_id)).dialogs:
            unread = [
                box_id
                for box_id, box in boxes.items()
                if box.peer == dialog.peer and not box.outgoing and box_id > dialog.read_inbox_max_id
            ]
            assert dialog.unread_count == len(unread)
            assert dialog.top_box_id == max(id_ for id_, box in boxes.items() if box.peer == dialog.peer)
    delivered = [(item.row.target_user_id, item.row.pts) for item in await deliver_all(store)]
    assert len(delivered) == len(set(delivered))
    stats = await store.outbox.stats()
    assert (stats.waiting, stats.leased, stats.failed) == (0, 0, 0)
    await store.ids.flush()
    assert await store.redis.client.zcard(store.redis.key(RESERVED)) == 0
