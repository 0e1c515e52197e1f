"""What the search costs those who write: the same load with the index kept and without it, by turns.

Each pair of rounds sends as many messages between fresh accounts, few enough that every one of them is due
for the index. The round with the index ends when all its messages are indexed, so that nothing of the cost is
put off; which of the two goes first changes from pair to pair. Then words are looked for. The words of the
messages are drawn as those of a language are: few come often, and thousands seldom.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

from loadtest.report import Report
from loadtest.world import FIRST_USER, WORDS, add_accounts, messages, scratch_store
from telesrv.domain.search import Query, SearchRequest

if TYPE_CHECKING:
    from rich.progress import Progress

    from loadtest.store import LoadSettings
    from telesrv.domain.messages import SendRequest
    from telesrv.store import Store

MOST_COST: Final = 0.15
"""The share of the rate of sends that the index may cost."""
_LONGER: Final = 4
"""So many times the messages asked for are sent in a round..."""
_PAIRS: Final = 3
"""... and so many pairs made for each round: single short ones differ by as much as the index may cost."""
_INDEXERS: Final = 4
"""Accounts indexed at once when all is sent: enough for both cores, as while sends go on."""
_BOXES_EACH: Final = 2_048
"""About how many messages an account gets in a round."""
_LANGUAGE: Final = [f"{stem}{ending}" for ending in range(100) for stem in WORDS]
_FREQUENCIES: Final = [1 / (place + 2) for place in range(len(_LANGUAGE))]
_WORDS: Final = ("quick0", "qu", "fox jumps", "nowhere", "a")


class SearchLoad:
    """One run over one store."""

    def __init__(self, store: Store, settings: LoadSettings) -> None:
        self._store = store
        self._settings = settings
        self._next_user = FIRST_USER
        self._seed = settings.seed
        self.report = Report()

    async def run(self) -> None:
        """Measures everything; what is wrong ends up in the report."""
        users: list[int] = []
        for concurrency in self._settings.concurrency:
            plain = self.report.level(f"send without the index, {concurrency} at once")
            indexed = self.report.level(f"send and index, {concurrency} at once")
            for number in range(_PAIRS * self._settings.rounds):
                for with_index in (number % 2 == 0, number % 2 == 1):
                    users, requests = await self._messages()
                    rate = await self._round(users, requests, concurrency, with_index)
                    (indexed if with_index else plain).rates.append(rate)
                    if with_index:
                        await self._look(users)
            shares = [with_it / without for with_it, without in zip(indexed.rates, plain.rates, strict=True)]
            indexed.floor_rates = list(plain.rates)
            cost = 1 - median(shares)
            if cost > MOST_COST:
                self.report.missed.append(f"the index costs {cost:.0%} at {concurrency}: aim {MOST_COST:.0%}")

    async def _messages(self) -> tuple[list[int], list[SendRequest]]:
        number = _LONGER * self._settings.messages
        users = list(range(self._next_user, self._next_user + max(2, 2 * number // _BOXES_EACH)))
        self._next_user += len(users)
        self._seed += 1
        await add_accounts(self._store, users)
        chance = random.Random(self._seed)
        return users, [
            replace(request, text=" ".join(chance.choices(_LANGUAGE, _FREQUENCIES, k=chance.randint(2, 20))))
            for request in messages(users, number, self._seed)
        ]

    async def _round(
        self, users: list[int], requests: list[SendRequest], concurrency: int, with_index: bool
    ) -> float:
        """Returns messages a second."""
        left: Iterator[SendRequest] = iter(requests)
        sent = asyncio.Event()

        async def client() -> None:
            for request in left:
                await self._store.messages.send(request)

        async def index() -> None:
            while not sent.is_set():
                if not await self._store.search.index_due():
                    await asyncio.sleep(0.05)

        started = perf_counter()
        indexer = asyncio.create_task(index()) if with_index else None
        await asyncio.gather(*(client() for _ in range(concurrency)))
        sent.set()
        if indexer is not None:
            await indexer
            unindexed = iter(users)
            await asyncio.gather(*(self._index(unindexed) for _ in range(_INDEXERS)))
        seconds = perf_counter() - started
        while self._store.signals.take_grown() is not None:
            pass  # nothing is left over for the next round
        return len(requests) / seconds

    async def _index(self, users: Iterator[int]) -> None:
        for user_id in users:
            while await self._store.search.index(user_id):
                pass

    async def _look(self, users: list[int]) -> None:
        level = self.report.level("search everywhere")
        for user_id in users[:20]:
            for words in _WORDS:
                started = perf_counter()
                found = await self._store.search.find(
                    SearchRequest(owner=user_id, query=Query(words), limit=20)
                )
                level.latencies_ms.append(1000 * (perf_counter() - started))
                if bool(found.boxes) != (words != "nowhere") or found.inexact:
                    self.report.wrong.append(f"{words!r} was looked for: {len(found.boxes)} found")
        level.rates.append(1000 / median(level.latencies_ms))


async def search(settings: LoadSettings, progress: Progress) -> Report:
    """The scenario of the search's cost."""
    async with scratch_store(settings) as store:
        load = SearchLoad(store, settings)
        await load.run()
        return load.report
