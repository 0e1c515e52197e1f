"""The push bus: how the serving processes reach each other, over Redis publish and subscribe.

Guarantees: a message arrives at most once; whoever must know that it was taken asks for an answer
(`request`, `broadcast`) and treats silence as not taken. Nothing is lost that is not also in the durable
log. Concurrency: one event loop; pushes are handled in the order they came, everything else in tasks of its
own, at most `_MAX_TASKS`. Lifecycle: `start` (returns once subscribed), `stop`. A lost connection to Redis
is opened again, also one that breaks unseen; what was published meanwhile is gone, its senders had no answer,
and *on_gap* is told.

A frame: header length (4 bytes, big-endian), header (JSON: kind, from, id, ...), body (bytes of any kind).
Channels: ``bus:{node}`` for one node, ``control`` for operators to all nodes (JSON alone, no answer).
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final

import structlog
from redis.exceptions import ConnectionError as RedisConnectionError

from telesrv.domain.errors import Unavailable
from telesrv.store.redis import Redis

log = structlog.get_logger(__name__)

Header = dict[str, Any]
Handler = Callable[[Header, bytes], Awaitable[tuple[Header, bytes] | None]]

CONTROL: Final = "control"
_MAX_TASKS: Final = 1024
"""Messages handled at once; beyond it reading from the bus waits, and senders go without an answer."""
_RECONNECT_S: Final = 0.2
QUIET_S: Final = 5.0
"""How long a connection that brings nothing is trusted before it is asked whether it stands, and how long it
may take to answer: one that breaks unseen, as with a cable, brings nothing for ever."""


class Bus:
    """This process's end of the bus."""

    def __init__(
        self,
        redis: Redis,
        node: int,
        *,
        on_heard: Callable[[int], None],
        on_gap: Callable[[], Coroutine[Any, Any, None]],
        quiet_s: float = QUIET_S,
    ) -> None:
        """Nothing is opened yet.

        Args:
            redis: the connections.
            node: this process's number.
            on_heard: told of each message which node it came from.
            on_gap: told when messages may have passed by unheard.
            quiet_s: after how long without a message the connection is asked whether it stands.
        """
        self._redis = redis
        self._on_heard = on_heard
        self._on_gap = on_gap
        self._quiet_s = quiet_s
        self._node = node
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[int, asyncio.Future[tuple[Header, bytes]]]] = {}
        """What was asked and not answered yet: of which node, and by whom."""
        self._handlers: dict[str, Handler] = {}
        self._inline: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._subscribed = asyncio.Event()
        self._is_open = False

    def on(self, kind: str, handler: Handler, *, inline: bool = False) -> None:
        """Has messages of *kind* handled; *inline* ones in order, so their handler must not wait for the
        bus."""
        self._handlers[kind] = handler
        if inline:
            self._inline.add(kind)

    async def start(self) -> None:
        """Subscribes.

        Raises:
            Unavailable: Redis does not answer.
        """
        self._reader = asyncio.get_running_loop().create_task(self._read())
        try:
            async with asyncio.timeout(10):
                await self._subscribed.wait()
        except TimeoutError:
            raise Unavailable("Redis") from None

    async def stop(self) -> None:
        """Unsubscribes and ends what is under way."""
        tasks = [*self._tasks, *([self._reader] if self._reader else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Sending

    async def send(self, node: int, kind: str, header: Header, body: bytes = b"") -> None:
        """Sends one message and waits for nothing.

        Raises:
            Unavailable: Redis is away.
        """
        await self._publish(f"bus:{node}", {**header, "kind": kind, "from": self._node}, body)

    async def request(
        self, node: int, kind: str, header: Header, body: bytes = b"", *, timeout_s: float
    ) -> tuple[Header, bytes] | None:
        """Returns the answer of a node, or None when there was none in time.

        Raises:
            Unavailable: Redis is away.
        """
        answers = await self._ask({node: f"bus:{node}"}, kind, header, body, timeout_s)
        return answers.get(node)

    async def broadcast(
        self, nodes: Collection[int], kind: str, header: Header, *, timeout_s: float
    ) -> set[int]:
        """Sends one message to each of *nodes*; returns those that answered in time.

        Raises:
            Unavailable: Redis is away.
        """
        return set(await self._ask({node: f"bus:{node}" for node in nodes}, kind, header, b"", timeout_s))

    async def _ask(
        self, channels: dict[int, str], kind: str, header: Header, body: bytes, timeout_s: float
    ) -> dict[int, tuple[Header, bytes]]:
        loop = asyncio.get_running_loop()
        futures: dict[int, asyncio.Future[tuple[Header, bytes]]]
        futures = {node: loop.create_future() for node in channels}
        ids = {node: next(self._ids) for node in channels}
        for node, message_id in ids.items():
            self._waiting[message_id] = node, futures[node]
        try:
            for node, channel in channels.items():
                full = {**header, "kind": kind, "from": self._node, "id": ids[node]}
                await self._publish(channel, full, body)
            if futures:
                await asyncio.wait(futures.values(), timeout=timeout_s)
            return {
                node: future.result()
                for node, future in futures.items()
                if future.done() and not future.cancelled()
            }
        finally:
            for message_id in ids.values():
                self._waiting.pop(message_id, None)

    def expect_nothing(self, nodes: Collection[int]) -> None:
        """Ends the wait for answers of nodes that are gone: they are silent from now on."""
        for node, future in self._waiting.values():
            if node in nodes:
                future.cancel()

    async def _publish(self, channel: str, header: Header, body: bytes) -> None:
        text = json.dumps(header, separators=(",", ":")).encode()
        frame = len(text).to_bytes(4, "big") + text + body
        await self._redis.call(lambda: self._redis.client.publish(self._redis.key(channel), frame))

    # Receiving

    async def _read(self) -> None:
        while True:
            try:
                await self._read_connection()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                if self._is_open:  # once, however long Redis is away
                    log.warning("the bus lost its connection; it opens another", error=type(error).__name__)
                self._is_open = False
            await asyncio.sleep(_RECONNECT_S)

    async def _read_connection(self) -> None:
        async with self._redis.client.pubsub(ignore_subscribe_messages=False) as pubsub:
            own, control = self._redis.key(f"bus:{self._node}"), self._redis.key(CONTROL)
            async with asyncio.timeout(self._quiet_s):
                await pubsub.subscribe(own, control)
            confirmed = 0
            asked = False
            while True:
                # The client library opens a connection that was closed again by itself: for that the rest.
                async with asyncio.timeout(2 * self._quiet_s):
                    message = await pubsub.get_message(timeout=self._quiet_s)
                    if message is None:
                        if asked:
                            raise RedisConnectionError("nothing comes in")
                        asked = True
                        await pubsub.ping()
                        continue
                asked = False
                if message["type"] == "subscribe":
                    # Also when the client library has opened a lost connection again, and subscribed anew.
                    confirmed += 1
                    if confirmed % 2 == 0:
                        self._listening()
                elif message["type"] == "message":
                    await self._take(message["data"], control=message["channel"] == control.encode())

    def _listening(self) -> None:
        """Notes that messages come in; not for the first time: some may have passed by."""
        if self._subscribed.is_set():
            self._spawn(self._on_gap())
        self._subscribed.set()
        self._is_open = True

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, frame: bytes, *, control: bool) -> None:
        try:
            if control:
                header, body = json.loads(frame), b""
                header = {**header, "kind": f"{CONTROL}:{header['kind']}"}
            else:
                size = int.from_bytes(frame[:4], "big")
                header, body = json.loads(frame[4 : 4 + size]), frame[4 + size :]
            kind = header["kind"]
        except (ValueError, KeyError, TypeError):
            log.warning("a message on the bus cannot be read", size_bytes=len(frame))
            return
        if not control:
            self._on_heard(header["from"])
        if kind == "answer":
            _, future = self._waiting.pop(header["to"], (0, None))
            if future is not None and not future.done():
                future.set_result((header, body))
            return
        handler = self._handlers.get(kind)
        if handler is None:
            log.warning("a message on the bus has an unknown kind", kind=kind)
        elif kind in self._inline:
            await self._handle(handler, header, body)
        else:
            while len(self._tasks) >= _MAX_TASKS:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self._spawn(self._handle(handler, header, body))

    async def _handle(self, handler: Handler, header: Header, body: bytes) -> None:
        try:
            answer = await handler(header, body)
            if "id" in header:
                answer_header, answer_body = answer or ({}, b"")
                full = {**answer_header, "kind": "answer", "from": self._node, "to": header["id"]}
                await self._publish(f"bus:{header['from']}", full, answer_body)
        except Unavailable as error:
            log.warning("a message on the bus could not be handled", kind=header["kind"], problem=str(error))
        except Exception:
            # Its sender gets no answer and knows that it was not taken.
            log.exception("handling a message of the bus failed", kind=header["kind"])
