"""Accounts and sends for the tests of the message store."""

from __future__ import annotations

import asyncio
import hashlib
from itertools import count
from typing import Any

from telesrv.domain.messages import ReplyTo, SendRequest, SentMessage
from telesrv.domain.peers import Peer
from telesrv.domain.updates import OUTBOX_BUCKETS, Event, NewEvent, OutboxItem
from telesrv.store import Store
from telesrv.store.events import EventWriter
from telesrv.store.pool import Connection

ANNA, BORIS, CLARA = 1_001, 1_002, 1_003
DATE = 1_700_000_000

_random_ids = count(1)


async def add_users(store: Store, *user_ids: int) -> None:
    """Makes accounts without anything in their logs."""
    await store.pool.execute(
        "INSERT INTO users (user_id, phone, first_name, created_at) "
        "SELECT id, '', 'x', 0 FROM unnest($1::bigint[]) AS u(id)",
        list(user_ids),
    )


def request(sender: int, to: int, text: str = "hello", **fields: Any) -> SendRequest:
    """Returns a send with a fresh random_id."""
    fields.setdefault("random_id", next(_random_ids))
    fields.setdefault("digest", hashlib.sha256(f"{to}:{text}".encode()).digest())
    fields.setdefault("date", DATE)
    return SendRequest(sender_user_id=sender, peer=Peer.user(to), text=text, **fields)


async def send(store: Store, sender: int, to: int, text: str = "hello", **fields: Any) -> SentMessage:
    """Sends one message."""
    return await store.messages.send(request(sender, to, text, **fields))


async def send_many(store: Store, sender: int, to: int, number: int) -> list[SentMessage]:
    """Sends messages at once; the committer keeps their order."""
    return list(await asyncio.gather(*(send(store, sender, to, f"message {i}") for i in range(number))))


async def log_event(store: Store, new: NewEvent) -> Event:
    """Logs an event by itself, as changes log theirs."""

    async def body(_: Connection, writer: EventWriter) -> Event:
        return writer.add(new)

    return await store.events.transact([new.user_id], body)


async def log_of(store: Store, user_id: int, pts: int = 0) -> list[Event]:
    """Returns all events after *pts*, page by page, as a client reads them."""
    events: list[Event] = []
    while True:
        page = await store.updates.difference(user_id, pts)
        events += page.events
        pts = page.state.pts
        if page.final:
            return events


async def claim_all(store: Store) -> list[OutboxItem]:
    """Claims one batch of every bucket, and reads what it is about."""
    claims = [await store.outbox.claim({bucket}) for bucket in range(OUTBOX_BUCKETS)]
    return await store.outbox.read([row for rows in claims for row in rows])


async def deliver_all(store: Store) -> list[OutboxItem]:
    """Claims and ends until nothing is left to claim."""
    delivered: list[OutboxItem] = []
    while items := await claim_all(store):
        delivered += items
        await store.outbox.done([item.row for item in items])
    return delivered


def reply(box_id: int, **fields: Any) -> ReplyTo:
    """Returns a reply to the owner's box."""
    return ReplyTo(box_id, **fields)
