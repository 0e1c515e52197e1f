"""The way without group commit: one transaction a message, one statement a row."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from time import perf_counter

from telesrv.domain.messages import SendRequest
from telesrv.domain.origin import NOBODY
from telesrv.domain.snapshots import entities_to_json
from telesrv.domain.updates import bucket_of
from telesrv.store import Store
from telesrv.store.ids import Want
from telesrv.store.send import SQL_LOOK_UP, look_up_columns

_BODY = """
INSERT INTO private_messages (sender_user_id, random_id, message_id, peer_type, peer_id, date, text, entities,
    digest, sender_box_id, recipient_box_id, sender_pts)
VALUES ($1, $2, $3, 1, $4, $5, $6, $7::text::jsonb, $8, $9, $10, $11) ON CONFLICT DO NOTHING
"""
_BOX = """
INSERT INTO message_boxes (owner_user_id, box_id, peer_type, peer_id, from_user_id, outgoing, message_id,
    date, text, entities, peer_box_id, pts)
VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9::text::jsonb, $10, $11) ON CONFLICT DO NOTHING
"""
_DIALOG = """
INSERT INTO dialogs AS d
    (owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, message_count)
VALUES ($1, 1, $2, $3, $4, $5, 1)
ON CONFLICT (owner_user_id, peer_type, peer_id) DO UPDATE SET
    top_box_id = GREATEST(d.top_box_id, excluded.top_box_id), top_date = excluded.top_date,
    unread_count = d.unread_count + excluded.unread_count, message_count = d.message_count + 1
"""
_EVENT = """
INSERT INTO user_update_events (user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id, random_id)
VALUES ($1, $2, 1, 1, $3, 1, $4, $5, $6) ON CONFLICT DO NOTHING
"""
_OWED = """
INSERT INTO dispatch_outbox
    (bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, created_at_ms)
VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT DO NOTHING
"""


async def run(store: Store, requests: Sequence[SendRequest], concurrency: int) -> float:
    """Returns the seconds that the messages take, each with its look-up, its ids and its nine rows."""
    left: Iterator[SendRequest] = iter(requests)

    async def client() -> None:
        for request in left:
            await _send(store, request)

    started = perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    return perf_counter() - started


async def _send(store: Store, request: SendRequest) -> None:
    here, there = request.sender_user_id, request.peer.id
    await store.pool.fetch(SQL_LOOK_UP, *look_up_columns([request]))
    grants = await store.ids.take([Want(here, 1, 1), Want(there, 1, 1)])
    mine, theirs = grants[here], grants[there]
    message_id = store.ids.message_ids.next()
    entities = json.dumps(entities_to_json(request.entities)) if request.entities else None
    date, text = request.date, request.text
    sides = sorted(
        [
            (here, mine.last_box_id, there, True, theirs.last_box_id, mine.last_pts),
            (there, theirs.last_box_id, here, False, mine.last_box_id, theirs.last_pts),
        ]
    )
    async with store.pool.transaction() as connection:
        await connection.execute(
            _BODY,
            *(here, request.random_id, message_id, there, date, text, entities, request.digest),
            *(mine.last_box_id, theirs.last_box_id, mine.last_pts),
        )
        for owner, box_id, peer, outgoing, peer_box_id, pts in sides:
            await connection.execute(
                _BOX, owner, box_id, peer, here, outgoing, message_id, date, text, entities, peer_box_id, pts
            )
        for owner, box_id, peer, outgoing, _, _ in sides:
            await connection.execute(_DIALOG, owner, peer, box_id, date, 0 if outgoing else 1)
        for owner, box_id, peer, outgoing, _, pts in sides:
            random_id = request.random_id if outgoing else 0
            await connection.execute(_EVENT, owner, pts, date, peer, box_id, random_id)
        for owner, _, _, outgoing, _, pts in sides:
            origin = request.origin if outgoing else NOBODY
            await connection.execute(_OWED, bucket_of(owner), owner, pts, *origin)
    store.events.committed(grants)
