"""The load of a day: clients that send, read, page, catch up, edit and delete, while pushes go out.

Each step is drawn by its weight. Accounts write to each other in chats that have messages already; nothing is
edited or deleted by two clients at once. What must be right always is: no error, no duplicate, every answer
holds what was committed before it was asked for, the outbox drained with each event pushed once, counters
that agree with the messages, and logs without a gap.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Final, TypeAlias

from rich.progress import Progress

from loadtest import floor
from loadtest.report import Bar, LoadSettings, Report, quiet_collector
from loadtest.world import FIRST_USER, add_accounts, deliver, messages, scratch_store
from telesrv.clock import SystemClock
from telesrv.domain.messages import SendRequest
from telesrv.domain.peers import Peer
from telesrv.domain.updates import OUTBOX_BUCKETS
from telesrv.store import Store

WEIGHTS: Final = {"send": 60, "history": 20, "read": 10, "difference": 5, "edit": 3, "delete": 2}
"""Of a hundred steps."""
_FILL_SHARE: Final = 2
"""Before anything is measured, one message for so many steps is sent: there must be something to read."""
_WINDOW: Final = 4096
"""So many of the newest messages are edited and deleted."""

# What the store holds, in one row.
COUNT: Final = """
SELECT (SELECT count(*) FROM private_messages) AS bodies,
    (SELECT count(*) FROM message_boxes) AS boxes,
    (SELECT count(*) FROM message_boxes WHERE deleted) AS deleted,
    (SELECT count(*) FROM user_update_events WHERE kind = 1) AS sent_events,
    (SELECT count(*) FROM user_update_events WHERE kind = 8) AS edit_events,
    (SELECT coalesce(sum(pts_count), 0) FROM user_update_events WHERE kind IN (9, 27)) AS deleted_pts
"""
# How many pts are in the logs, and how far these go.
COUNT_PTS: Final = """
SELECT coalesce(sum(covered), 0)::bigint AS covered, coalesce(sum(head), 0)::bigint AS heads,
    coalesce(sum(events), 0)::bigint AS events
FROM (SELECT sum(pts_count) AS covered, max(pts) AS head, count(*) AS events
    FROM user_update_events GROUP BY user_id) AS logs
"""
# How many dialogs say of themselves what their messages do not.
COUNT_WRONG_DIALOGS: Final = """
SELECT count(*) FROM dialogs d LEFT JOIN LATERAL (
    SELECT count(*) AS messages, coalesce(max(b.box_id), 0) AS top,
        count(*) FILTER (WHERE NOT b.outgoing AND b.box_id > d.read_inbox_max_id) AS unread
    FROM message_boxes b
    WHERE b.owner_user_id = d.owner_user_id AND b.peer_type = d.peer_type AND b.peer_id = d.peer_id
        AND NOT b.deleted) AS b ON true
WHERE (d.message_count, d.top_box_id, d.unread_count) <> (b.messages, b.top, b.unread)
"""

Chat: TypeAlias = tuple[int, int]
"""owner, peer's user_id."""


@dataclass(slots=True)
class Sent:
    """A message that was acknowledged and not deleted, and that no client is changing now."""

    sender: int
    receiver: int
    box_id: int
    peer_box_id: int


class MixedLoad:
    """One run over one store."""

    def __init__(self, store: Store, settings: LoadSettings, progress: Progress) -> None:
        self._store = store
        self._settings = settings
        self._progress = progress
        self._chance = random.Random(settings.seed)
        self._users: list[int] = []
        self._next_user = FIRST_USER
        self._fresh: Iterator[SendRequest] = iter(())
        self._seed = settings.seed
        self._known: list[Sent] = []
        self._newest: dict[Chat, int] = {}
        self._gone: set[tuple[int, int]] = set()
        self._pts: dict[int, int] = {}
        self._catching_up: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._pushed: set[tuple[int, int]] = set()
        self._pushes = 0
        self._stop = asyncio.Event()
        self.report = Report()

    async def run(self) -> None:
        """Measures each level; what is wrong ends up in the report."""
        workers = [asyncio.create_task(self._push(index)) for index in range(self._settings.outbox_workers)]
        for concurrency in self._settings.concurrency:
            await self._level(concurrency)
        self._stop.set()
        await asyncio.gather(*workers)
        await self._check()
        self._judge()

    async def _level(self, concurrency: int) -> None:
        """Takes the steps in a closed loop."""
        settings = self._settings
        self._users = list(range(self._next_user, self._next_user + settings.users))
        self._next_user += settings.users
        self._known = []
        await add_accounts(self._store, self._users)
        fill = settings.messages // _FILL_SHARE or 1
        self._seed += 1
        self._fresh = messages(self._users, fill + settings.messages, self._seed)
        filling = iter(range(fill))
        await asyncio.gather(*(self._take(self._send, filling) for _ in range(concurrency)))
        # Drawn apart: what the steps themselves draw depends on how they meet.
        chance = random.Random(self._seed)
        names = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=settings.messages)
        left = iter(names)
        taken: dict[str, list[float]] = {name: [] for name in WEIGHTS}

        async def client() -> None:
            for name in left:
                started = perf_counter()
                if await self._attempt(name):
                    taken[name].append(perf_counter() - started)

        with quiet_collector():
            title = f"mixed, {concurrency} at once"
            async with Bar(self._progress, title, len(names), lambda: sum(map(len, taken.values()))):
                started = perf_counter()
                await asyncio.gather(*(client() for _ in range(concurrency)))
                seconds = perf_counter() - started
        everything = self.report.level(f"all, {concurrency} at once")
        everything.rates.append(len(names) / seconds)
        for name, latencies in taken.items():
            level = self.report.level(f"{name}, {concurrency} at once")
            level.rates.append(len(latencies) / seconds)
            level.latencies_ms += [1000 * latency for latency in latencies]
            everything.latencies_ms += level.latencies_ms

    async def _take(self, step: Callable[[], Awaitable[None]], left: Iterator[int]) -> None:
        for _ in left:
            await step()

    async def _attempt(self, name: str) -> bool:
        """Takes one step; False when it failed, which is wrong."""
        steps: dict[str, Callable[[], Awaitable[None]]] = {
            "send": self._send,
            "history": self._history,
            "read": self._read,
            "difference": self._difference,
            "edit": self._edit,
            "delete": self._delete,
        }
        try:
            await steps[name]()
        except Exception as error:
            self._wrong(f"{name} failed: {error!r}")
            return False
        return True

    async def _send(self) -> None:
        request = next(self._fresh)
        sent = await self._store.messages.send(request)
        if sent.duplicate:
            self._wrong("a first send was answered as a repeat")
        sender, receiver = request.sender_user_id, request.peer.id
        self._counts["sent"] += 1
        self._known.append(Sent(sender, receiver, sent.box.box_id, sent.box.peer_box_id))
        for owner, peer, box_id in (
            (sender, receiver, sent.box.box_id),
            (receiver, sender, sent.box.peer_box_id),
        ):
            self._newest[owner, peer] = max(self._newest.get((owner, peer), 0), box_id)

    async def _history(self) -> None:
        """Reads a page of a chat, which begins with what was acknowledged before, or something newer."""
        owner, peer = self._some_chat()
        expected = self._newest.get((owner, peer), 0)
        page = await self._store.messages.history(owner, Peer.user(peer), limit=20)
        ids = [box.box_id for box in page.boxes]
        if ids != sorted(set(ids), reverse=True) or any(box.peer != Peer.user(peer) for box in page.boxes):
            self._wrong("a page of a chat is out of order or of another chat")
        if expected and (owner, expected) not in self._gone and (not ids or ids[0] < expected):
            self._wrong("a page lacks a message that was acknowledged before")

    async def _read(self) -> None:
        owner, peer = self._some_chat()
        await self._store.messages.read(owner, Peer.user(peer), 0, date=_now())

    async def _difference(self) -> None:
        """Goes on from where the account's client was, as a client that was away does."""
        user_id = self._chance.choice(self._users)
        if user_id in self._catching_up:
            user_id = next((other for other in self._users if other not in self._catching_up), user_id)
        self._catching_up.add(user_id)
        try:
            pts = self._pts.get(user_id, 0)
            difference = await self._store.updates.difference(user_id, pts)
            for event in difference.events:
                if event.pts - event.pts_count != pts:
                    self._wrong("a difference is not contiguous")
                pts = event.pts
            if difference.state.pts != pts and difference.events:
                self._wrong("a difference's state is not that of its last event")
            self._pts[user_id] = difference.state.pts
        finally:
            self._catching_up.discard(user_id)

    async def _edit(self) -> None:
        sent = self._take_known()
        number = self._counts["edits begun"]
        self._counts["edits begun"] += 1
        peer = Peer.user(sent.receiver)
        edited = await self._store.edits.edit(
            sent.sender, peer, sent.box_id, f"edited {number}", (), date=_now()
        )
        if edited.pts_count != 1 or edited.box.edit_date is None:
            self._wrong("an edit says something else than what it did")
        self._counts["edited"] += 1
        self._known.append(sent)

    async def _delete(self) -> None:
        """Deletes for both sides, or for the sender alone."""
        sent = self._take_known()
        revoke = self._chance.random() < 0.5
        sides = [(sent.sender, sent.receiver, sent.box_id)]
        if revoke:
            sides.append((sent.receiver, sent.sender, sent.peer_box_id))
        for owner, peer, box_id in sides:
            self._gone.add((owner, box_id))
            if self._newest[owner, peer] == box_id:
                self._newest[owner, peer] = 0
        affected = await self._store.deletes.delete(sent.sender, [sent.box_id], date=_now(), revoke=revoke)
        if affected.pts_count != 1:
            self._wrong("a delete of one message says that it deleted another number")
        self._counts["deleted"] += len(sides)

    def _some_chat(self) -> Chat:
        sent = self._known[self._chance.randrange(len(self._known))]
        return (sent.sender, sent.receiver) if self._chance.random() < 0.5 else (sent.receiver, sent.sender)

    def _take_known(self) -> Sent:
        """Returns one of the newest messages, which is nobody else's until it is put back."""
        known = self._known
        at = self._chance.randrange(max(0, len(known) - _WINDOW), len(known))
        known[at], known[-1] = known[-1], known[at]
        return known.pop()

    async def _push(self, index: int) -> None:
        """Pushes to nobody what is owed, until the run has stopped and nothing is."""
        outbox = self._store.outbox
        own = floor.buckets_of(index, self._settings.outbox_workers, OUTBOX_BUCKETS)
        while (due := await outbox.wait(0.1, own) or await outbox.due(own)) or not self._stop.is_set():
            async for rows in deliver(self._store, due):
                self._pushes += len(rows)
                self._pushed.update((row.target_user_id, row.pts) for row in rows)

    async def _check(self) -> None:
        """Finds out whether what must be right is right."""
        pool, counts = self._store.pool, self._counts
        row = await pool.fetchrow(COUNT)
        assert row is not None
        expected = {
            "bodies": counts["sent"],
            "boxes": 2 * counts["sent"],
            "deleted": counts["deleted"],
            "sent_events": 2 * counts["sent"],
            "deleted_pts": counts["deleted"],
        }
        found = dict(row)
        edit_events = found.pop("edit_events")
        if found != expected:
            self._wrong(f"{expected} was expected, {found} is stored")
        if not counts["edited"] <= edit_events <= 2 * counts["edited"]:
            self._wrong(f"{counts['edited']} edits have {edit_events} events")
        logs = await pool.fetchrow(COUNT_PTS)
        assert logs is not None
        if logs["covered"] != logs["heads"]:
            self._wrong(f"the events cover {logs['covered']} pts, the logs have {logs['heads']}")
        if not logs["events"] == self._pushes == len(self._pushed):
            self._wrong(
                f"{logs['events']} events, {self._pushes} ({len(self._pushed)} of them first) were pushed"
            )
        wrong_dialogs = await pool.fetchval(COUNT_WRONG_DIALOGS)
        if wrong_dialogs:
            self._wrong(f"{wrong_dialogs} dialogs disagree with their messages")
        stats = await self._store.outbox.stats()
        if stats.waiting or stats.leased or stats.failed:
            self._wrong(f"the outbox is not drained: {stats}")
        _, gaps = await self._store.gaps.find()
        if gaps:
            self._wrong(f"{len(gaps)} gaps in the logs, the first {gaps[0]}")

    def _judge(self) -> None:
        """Compares with what is wanted."""
        settings = self._settings
        aims = {"send": settings.slo_send_p99_ms, "difference": settings.slo_difference_p99_ms}
        for level in self.report.levels.values():
            aim, p99 = aims.get(level.name.split(",")[0]), level.percentile_ms(99)
            if aim is not None and p99 is not None and p99 > aim:
                self.report.missed.append(f"{level.name}: p99 {p99:.0f} ms, not {aim:.0f}")
            if level.name.startswith("send,") and level.rate < settings.slo_messages_per_s:
                aim = settings.slo_messages_per_s
                self.report.missed.append(f"{level.name}: {level.rate:.0f} msg/s, not {aim:.0f}")

    def _wrong(self, text: str) -> None:
        if text not in self.report.wrong:
            self.report.wrong.append(text)


def _now() -> int:
    return int(SystemClock().time())


async def mixed(settings: LoadSettings, progress: Progress) -> Report:
    """The scenario of everything that clients do all day."""
    async with scratch_store(settings) as store:
        load = MixedLoad(store, settings, progress)
        await load.run()
        return load.report
