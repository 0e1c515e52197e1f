"""The bus: answers, silence, order, and what it tells of those it hears and of what may have passed by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote, urlsplit

import pytest_asyncio

from telesrv.gateway.bus import CONTROL, QUIET_S, Bus, Header
from telesrv.store.redis import Redis
from tests.support.link import Link
from tests.support.waiting import until

LONG_S = 30.0
PING = b"*1\r\n$4\r\nPING\r\n"


class End:
    """One process's end of the bus, and what it noticed."""

    def __init__(self, redis: Redis, node: int, quiet_s: float = QUIET_S) -> None:
        self.heard: list[int] = []
        self.gaps: asyncio.Queue[None] = asyncio.Queue()
        self.bus = Bus(redis, node, on_heard=self.heard.append, on_gap=self._gap, quiet_s=quiet_s)
        self.redis = redis

    async def _gap(self) -> None:
        self.gaps.put_nowait(None)


MakeEnd = Callable[[int], Awaitable[End]]


@pytest_asyncio.fixture
async def make(redis_url: str, redis_prefix: str) -> AsyncIterator[MakeEnd]:
    """Makes ends, each with connections of its own."""
    ends: list[End] = []

    async def make_end(node: int) -> End:
        end = End(await Redis.connect(redis_url, prefix=redis_prefix, wait_s=2.0), node)
        ends.append(end)
        await end.bus.start()
        return end

    yield make_end
    for end in ends:
        await end.bus.stop()
        await end.redis.close()


async def echo(header: Header, body: bytes) -> tuple[Header, bytes]:
    return {"said": header["say"]}, body[::-1]


async def test_a_request_has_its_answer(make: MakeEnd) -> None:
    one, two = await make(1), await make(2)
    two.bus.on("echo", echo)
    body = bytes(range(256)) * 5000
    answer = await one.bus.request(2, "echo", {"say": "hello"}, body, timeout_s=LONG_S)
    assert answer is not None
    assert (answer[0]["said"], answer[1]) == ("hello", body[::-1])
    assert one.heard == [2]
    assert two.heard == [1]


async def test_silence_is_no_answer(make: MakeEnd) -> None:
    one, two = await make(1), await make(2)

    async def fail(header: Header, body: bytes) -> None:
        raise KeyError("a bug")

    two.bus.on("fail", fail)
    two.bus.on("echo", echo)
    assert await one.bus.request(2, "fail", {}, timeout_s=0.05) is None
    assert await one.bus.request(2, "unheard of", {}, timeout_s=0.05) is None
    assert await one.bus.request(9, "echo", {"say": ""}, timeout_s=0.05) is None
    # And it goes on.
    assert await one.bus.request(2, "echo", {"say": ""}, timeout_s=LONG_S) is not None


async def test_a_broadcast_tells_who_answered(make: MakeEnd) -> None:
    one, two, three = await make(1), await make(2), await make(3)
    for end in (two, three):
        end.bus.on("echo", echo)
    assert await one.bus.broadcast({2, 3}, "echo", {"say": ""}, timeout_s=LONG_S) == {2, 3}
    # There is no node 4, which is waited for until the time is over; node 3 answers within one that is ample.
    timeout_s, answered = 0.05, set[int]()
    while not answered:
        timeout_s *= 2
        assert timeout_s < LONG_S
        answered = await one.bus.broadcast({3, 4}, "echo", {"say": ""}, timeout_s=timeout_s)
    assert answered == {3}


async def test_nobody_waits_for_one_that_is_gone(make: MakeEnd) -> None:
    one, two = await make(1), await make(2)
    asked: asyncio.Queue[None] = asyncio.Queue()

    async def hang(header: Header, body: bytes) -> None:
        asked.put_nowait(None)
        await asyncio.Event().wait()

    two.bus.on("hang", hang)
    two.bus.on("echo", echo)
    request = asyncio.create_task(one.bus.request(2, "hang", {}, timeout_s=LONG_S))
    broadcast = asyncio.create_task(one.bus.broadcast({2, 9}, "hang", {}, timeout_s=LONG_S))
    await asyncio.gather(asked.get(), asked.get())
    one.bus.expect_nothing({2, 9})
    assert await request is None
    assert await broadcast == set()
    # One that is there after all is asked as ever.
    assert await one.bus.request(2, "echo", {"say": ""}, timeout_s=LONG_S) is not None


async def test_pushes_keep_their_order(make: MakeEnd) -> None:
    one, two = await make(1), await make(2)
    taken: list[int] = []

    async def take(header: Header, body: bytes) -> None:
        if header["number"] % 7 == 0:
            await asyncio.sleep(0)
        taken.append(header["number"])

    two.bus.on("push", take, inline=True)
    for number in range(100):
        await one.bus.send(2, "push", {"number": number})
    assert await one.bus.request(2, "push", {"number": 100}, timeout_s=LONG_S) is not None
    assert taken == list(range(101))


async def test_operators_are_heard_by_all(make: MakeEnd) -> None:
    one, two = await make(1), await make(2)
    got: asyncio.Queue[int] = asyncio.Queue()

    async def log_out(header: Header, body: bytes) -> None:
        got.put_nowait(header["auth_key_ids"][0])

    for end in (one, two):
        end.bus.on(f"{CONTROL}:log_out", log_out)
    await one.redis.client.publish(one.redis.key(CONTROL), b"not json")
    message = json.dumps({"kind": "log_out", "auth_key_ids": [5]})
    await one.redis.client.publish(one.redis.key(CONTROL), message)
    assert [await got.get(), await got.get()] == [5, 5]


async def test_a_broken_connection_is_opened_again_and_told(make: MakeEnd) -> None:
    one, two = await make(1), await make(2)
    two.bus.on("echo", echo)
    assert two.gaps.empty()
    for _ in range(2):
        await one.redis.client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await asyncio.gather(one.gaps.get(), two.gaps.get())
        assert await one.bus.request(2, "echo", {"say": ""}, timeout_s=LONG_S) is not None


async def test_a_connection_that_brings_nothing_is_opened_again(
    make: MakeEnd, redis_url: str, redis_prefix: str
) -> None:
    two = await make(2)
    two.bus.on("echo", echo)
    url = urlsplit(redis_url)
    async with Link(unquote(url.path), 0) as link:
        redis = await Redis.connect(f"redis://:{url.password}@127.0.0.1:{link.port}/0", prefix=redis_prefix)
        one = End(redis, 1, quiet_s=0.5)
        await one.bus.start()
        assert await one.bus.request(2, "echo", {"say": ""}, timeout_s=LONG_S) is not None

        async def stands_through_two_questions() -> bool:
            accepted, bytes_up = link.accepted, link.bytes_up
            await until(lambda: link.bytes_up >= bytes_up + 2 * len(PING), "two questions")
            return link.accepted == accepted

        # One that answers is kept; a slow machine may be late with an answer, and another is opened then.
        await until(stands_through_two_questions, "a quiet connection to be kept")
        while not one.gaps.empty():
            one.gaps.get_nowait()
        link.freeze()
        # It makes another connection, and that is silent too.
        await link.wait_connected(link.accepted + 2)
        link.mend()
        await one.gaps.get()
        assert await one.bus.request(2, "echo", {"say": ""}, timeout_s=LONG_S) is not None
        link.freeze()
        await one.bus.stop()
        await redis.close()
