"""What the load of the store is made on: a scratch database, accounts, and messages made beforehand.

Guarantees: nothing but a database and keys of its own is touched, and they are gone afterwards.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from redis.asyncio import Redis

from loadtest.report import LoadSettings
from telesrv.clock import SystemClock
from telesrv.domain.messages import Entity, SendRequest
from telesrv.domain.origin import Origin
from telesrv.domain.peers import Peer
from telesrv.domain.updates import OutboxRow
from telesrv.platform import EmbeddedServers, migrate
from telesrv.store import Store, StoreConfig
from telesrv.store.ids import Want

FIRST_USER = 10_000_000
SHIFT = 1_000_000_000
"""From an account to the one that stands for it in the floor."""
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "nobody", "looks"]


async def deliver(store: Store, buckets: Collection[int]) -> AsyncIterator[list[OutboxRow]]:
    """Claims and ends what some buckets owe as the dispatcher does, until a claim is not full."""
    while rows := await store.outbox.claim(buckets):
        await store.outbox.done(rows)
        yield rows
        if len(rows) < store.outbox.limit(buckets):
            return


@asynccontextmanager
async def scratch_servers(postgres_dsn: str | None, redis_url: str | None) -> AsyncIterator[tuple[str, str]]:
    """Gives a DSN of an empty database and a Redis URL; a cluster of its own for what is not given."""
    directory = Path(tempfile.mkdtemp(prefix="telesrv-load-"))
    os.chmod(directory, 0o711)  # noqa: S103 - the account that PostgreSQL runs as must get in
    servers = EmbeddedServers(directory, postgres=postgres_dsn is None, redis=redis_url is None)
    try:
        own = await servers.start()
        redis = redis_url or own.redis_url
        if postgres_dsn is None:
            yield own.postgres_dsn, redis
            return
        name = f"telesrv_load_{secrets.token_hex(6)}"
        connection = await asyncpg.connect(postgres_dsn)
        try:
            await connection.execute(f'CREATE DATABASE "{name}"')
            try:
                yield urlunsplit(urlsplit(postgres_dsn)._replace(path=f"/{name}")), redis
            finally:
                await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        finally:
            await connection.close()
    finally:
        await servers.stop()
        shutil.rmtree(directory)


@asynccontextmanager
async def open_store(
    postgres_dsn: str,
    redis_url: str,
    *,
    pool_conns: int,
    at_once: int | None = None,
    partitions: int,
    outbox_batch: int,
) -> AsyncIterator[Store]:
    """Gives a store over a fresh schema, its keys under a prefix of their own."""
    await migrate(postgres_dsn, partitions)
    prefix = f"telesrv-load-{secrets.token_hex(6)}:"
    store = await Store.open(
        StoreConfig(
            postgres_dsn=postgres_dsn,
            redis_url=redis_url,
            redis_prefix=prefix,
            clock=SystemClock(),
            min_conns=min(16, pool_conns),
            max_conns=pool_conns,
            at_once=at_once,
            wait_s=30,
            outbox_batch=outbox_batch,
        )
    )
    try:
        yield store
    finally:
        await store.close()
        client = Redis.from_url(redis_url)
        async for key in client.scan_iter(match=f"{prefix}*", count=1000):
            await client.unlink(key)
        await client.aclose()


@asynccontextmanager
async def scratch_store(settings: LoadSettings) -> AsyncIterator[Store]:
    """Gives a store on scratch servers, as the settings say."""
    async with (
        scratch_servers(settings.postgres_dsn, settings.redis_url) as (postgres_dsn, redis_url),
        open_store(
            postgres_dsn,
            redis_url,
            pool_conns=settings.pool_conns,
            at_once=settings.at_once,
            partitions=settings.partitions,
            outbox_batch=settings.outbox_batch,
        ) as store,
    ):
        yield store


async def add_accounts(store: Store, user_ids: Sequence[int]) -> None:
    """Makes accounts, with their counters restored, as accounts are that have been here before."""
    await store.pool.execute(
        "INSERT INTO users (user_id, phone, first_name, created_at) "
        "SELECT id, '', 'x', 0 FROM unnest($1::bigint[]) AS u(id)",
        list(user_ids),
    )
    for start in range(0, len(user_ids), 500):
        await store.ids.take([Want(user_id) for user_id in user_ids[start : start + 500]], reseed=True)


def messages(users: Sequence[int], number: int, seed: int) -> Iterator[SendRequest]:
    """Yields messages between accounts at random, some with a styled word; the same for the same seed."""
    chance = random.Random(seed)
    date = int(SystemClock().time())
    for i in range(number):
        sender, receiver = chance.sample(users, 2)
        text = " ".join(chance.choices(WORDS, k=chance.randint(2, 20)))
        yield SendRequest(
            sender_user_id=sender,
            peer=Peer.user(receiver),
            random_id=seed << 32 | i + 1,
            text=text,
            date=date,
            entities=(Entity("bold", 0, 3),) if i % 10 == 0 else (),
            origin=Origin(sender, sender),
            digest=hashlib.sha256(text.encode()).digest(),
        )
