"""The rows of a batch of sends: one statement writes all of them, and its arguments are columns.

Guarantees: all rows of the batch are written or none. The statement fails, by a division by zero of its own,
when a key was taken, when one of the messages was sent or scheduled by somebody else meanwhile, or when a box
would lie below the mark up to which its owner has read: such a box would never be unread, so it takes new
ids. A message whose time has come takes over the row that kept its random_id while it waited.

Rows are locked in one order: private_messages, message_boxes, dialogs, user_update_events, dispatch_outbox;
within a table by key. A batch that ends drafts has a second statement for them, in the same transaction, and
one that moves chats to the archive or back some more.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from telesrv.domain.messages import MessageBox, SendRequest, SentMessage
from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.domain.snapshots import entities_to_json, fwd_to_json, quote_to_json
from telesrv.domain.updates import bucket_of
from telesrv.store.archive import Arrival, Return
from telesrv.store.ids import Grant, MessageIds, Want
from telesrv.store.pool import to_json

# Writes a batch of messages: for each its body, both boxes, both dialogs, both events and what is owed.
SQL_WRITE: Final = """
WITH m AS MATERIALIZED (
    SELECT sender, random_id, message_id, peer_type, peer_id, date, text, entities::jsonb AS entities, digest,
        box_id, pts, there, there_box_id, there_pts, silent, noforwards, reply_to, reply_there,
        quote::jsonb AS quote, exclude_key, exclude_session, bucket, there_bucket, flags, expires_at,
        fwd::jsonb AS fwd
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::int[],
        $7::text[], $8::text[], $9::bytea[], $10::int[], $11::int[], $12::bigint[], $13::int[], $14::int[],
        $15::boolean[], $16::boolean[], $17::int[], $18::int[], $19::text[], $20::bigint[], $21::bigint[],
        $22::smallint[], $23::smallint[], $24::int[], $25::int[], $26::text[])
        AS q(sender, random_id, message_id, peer_type, peer_id, date, text, entities, digest, box_id, pts,
        there, there_box_id, there_pts, silent, noforwards, reply_to, reply_there, quote, exclude_key,
        exclude_session, bucket, there_bucket, flags, expires_at, fwd)
), side AS MATERIALIZED (
    SELECT sender AS owner, box_id, pts, peer_type, peer_id, true AS outgoing, date, random_id, exclude_key,
        exclude_session, bucket
    FROM m WHERE box_id > 0
    UNION ALL
    SELECT there, there_box_id, there_pts, 1::smallint, sender, false, date, 0, 0, 0, there_bucket
    FROM m WHERE there_box_id > 0
), chat AS MATERIALIZED (
    SELECT owner, peer_type, peer_id, max(box_id::bigint << 32 | date) AS top, count(*) AS boxes,
        count(*) FILTER (WHERE NOT outgoing) AS incoming, min(box_id) FILTER (WHERE NOT outgoing) AS first
    FROM side GROUP BY owner, peer_type, peer_id
), body AS (
    INSERT INTO private_messages AS p
        (sender_user_id, random_id, message_id, peer_type, peer_id, date, text, entities, digest,
        sender_box_id, recipient_box_id, sender_pts)
    SELECT sender, random_id, message_id, peer_type, peer_id, date, text, entities, digest, box_id,
        there_box_id, pts
    FROM m WHERE box_id > 0 ORDER BY sender, random_id
    ON CONFLICT (sender_user_id, random_id) DO UPDATE SET
        message_id = excluded.message_id, date = excluded.date, text = excluded.text,
        entities = excluded.entities, sender_box_id = excluded.sender_box_id,
        recipient_box_id = excluded.recipient_box_id, sender_pts = excluded.sender_pts
    WHERE p.sender_box_id = 0 AND p.digest = excluded.digest
    RETURNING 1
), box AS (
    INSERT INTO message_boxes
        (owner_user_id, box_id, peer_type, peer_id, from_user_id, outgoing, message_id, date, text, entities,
        silent, noforwards, reply_to_box_id, reply_quote, peer_box_id, pts, flags, expires_at, fwd,
        random_id)
    SELECT sender, box_id, peer_type, peer_id, sender, true, message_id, date, text, entities, silent,
        noforwards, reply_to, quote, there_box_id, pts, flags, expires_at, fwd, random_id
    FROM m WHERE box_id > 0
    UNION ALL
    SELECT there, there_box_id, 1, sender, sender, false, message_id, date, text, entities, silent,
        noforwards, reply_there, CASE WHEN reply_there IS NOT NULL THEN quote END, box_id, there_pts, flags,
        expires_at, fwd, 0
    FROM m WHERE there_box_id > 0
    ORDER BY 1, 2
    ON CONFLICT (owner_user_id, box_id) DO NOTHING
    RETURNING 1
), dialog AS (
    INSERT INTO dialogs AS d
        (owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, message_count)
    SELECT owner, peer_type, peer_id, (top >> 32)::int, (top & 2147483647)::int, incoming, boxes
    FROM chat ORDER BY owner, peer_type, peer_id
    ON CONFLICT (owner_user_id, peer_type, peer_id) DO UPDATE SET
        top_box_id = GREATEST(d.top_box_id, excluded.top_box_id),
        top_date = CASE WHEN excluded.top_box_id > d.top_box_id THEN excluded.top_date ELSE d.top_date END,
        unread_count = d.unread_count + excluded.unread_count,
        message_count = d.message_count + excluded.message_count
    RETURNING owner_user_id, peer_type, peer_id, read_inbox_max_id
), event AS (
    INSERT INTO user_update_events
        (user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id, random_id)
    SELECT owner, pts, 1, 1, date, peer_type, peer_id, box_id, random_id
    FROM side ORDER BY owner, pts
    ON CONFLICT (user_id, pts) DO NOTHING
    RETURNING 1
), owed AS (
    INSERT INTO dispatch_outbox
        (bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, created_at_ms)
    SELECT bucket, owner, pts, exclude_key, exclude_session, $27
    FROM side ORDER BY bucket, owner, pts
    ON CONFLICT (bucket, target_user_id, pts) DO NOTHING
)
SELECT 1 / (
    (SELECT count(*) FROM body) = (SELECT count(*) FROM m WHERE box_id > 0)
    AND (SELECT count(*) FROM box) = (SELECT count(*) FROM side)
    AND NOT EXISTS (
        SELECT 1 FROM dialog d JOIN chat c ON c.owner = d.owner_user_id AND c.peer_type = d.peer_type
            AND c.peer_id = d.peer_id
        WHERE c.first <= d.read_inbox_max_id)
    AND (SELECT count(*) FROM event) = (SELECT count(*) FROM side)
)::int
"""
# Ends drafts, each with its event. One that was saved or cleared meanwhile is left alone, and a noop stands
# for it. No event of the same chat can stand behind: who logs one changes the row's pts, which is named here.
SQL_END_DRAFTS: Final = """
WITH q AS MATERIALIZED (
    SELECT owner, peer_type, peer_id, version, pts, date, bucket
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::int[], $5::int[], $6::int[], $7::smallint[])
        AS q(owner, peer_type, peer_id, version, pts, date, bucket)
), gone AS (
    DELETE FROM dialog_drafts d USING q
    WHERE d.owner_user_id = q.owner AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
        AND d.pts = q.version
    RETURNING d.owner_user_id, d.pts
), ended AS MATERIALIZED (
    SELECT q.owner, q.peer_type, q.peer_id, q.pts, q.date, q.bucket, g.pts IS NOT NULL AS ended
    FROM q LEFT JOIN gone g ON g.owner_user_id = q.owner AND g.pts = q.version
), event AS (
    INSERT INTO user_update_events (user_id, pts, pts_count, kind, date, peer_type, peer_id, payload)
    SELECT owner, pts, 1, CASE WHEN ended THEN 13 ELSE 0 END, date, CASE WHEN ended THEN peer_type ELSE 0 END,
        CASE WHEN ended THEN peer_id ELSE 0 END, CASE WHEN ended THEN '{}'::jsonb END
    FROM ended ORDER BY owner, pts
    ON CONFLICT (user_id, pts) DO NOTHING
    RETURNING 1
), owed AS (
    INSERT INTO dispatch_outbox (bucket, target_user_id, pts, created_at_ms)
    SELECT bucket, owner, pts, $8 FROM ended ORDER BY bucket, owner, pts
    ON CONFLICT (bucket, target_user_id, pts) DO NOTHING
)
SELECT 1 / ((SELECT count(*) FROM event) = (SELECT count(*) FROM q))::int
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A message that may be written."""

    reaches: bool
    """Whether the other side gets a copy."""
    reply_there: int = 0
    """The id of what it replies to on the other side; 0 when that side has no such message."""
    ttl_s: int = 0
    """After how long it is deleted by itself; 0: never."""
    draft_pts: int = 0
    """The sender's draft that ends with it, by its pts; 0: none."""
    unarchives: bool = False
    """The other side's chat comes back from the archive."""
    arrives: bool = False
    """The other side's chat begins with it, in the archive."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The chats that messages bring back from the archive, and those that they begin there."""

    back: list[Return] = field(default_factory=list)
    away: list[Arrival] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.back or self.away)


def wants_of(requests: Sequence[SendRequest], live: Mapping[int, Verdict]) -> list[Want]:
    """Returns the ids that the messages of *live*, by their place in *requests*, need."""
    wants: dict[int, int] = {}
    more: dict[int, int] = {}
    for i, verdict in live.items():
        request = requests[i]
        if request.sender_user_id != SERVICE_USER_ID:
            wants[request.sender_user_id] = wants.get(request.sender_user_id, 0) + 1
        if verdict.reaches:
            wants[request.peer.id] = wants.get(request.peer.id, 0) + 1
        if verdict.draft_pts:
            more[request.sender_user_id] = more.get(request.sender_user_id, 0) + 1
        if verdict.unarchives or verdict.arrives:
            more[request.peer.id] = more.get(request.peer.id, 0) + (2 if verdict.arrives else 1)
    return [Want(user_id, number + more.get(user_id, 0), number) for user_id, number in wants.items()]


def rows_of(
    requests: Sequence[SendRequest],
    live: Mapping[int, Verdict],
    grants: Mapping[int, Grant],
    message_ids: MessageIds,
    now_ms: int,
) -> tuple[dict[int, SentMessage], list[Any], list[Any], Moves]:
    """Gives the messages of *live* their ids, rising in the order of *requests*.

    Returns:
        What became of each once it is written: the sender's box, or the receiver's of a service message; the
        arguments of `SQL_WRITE`; those of `SQL_END_DRAFTS`, none when no draft ends; and the chats that come
        back from the archive, or begin there.
    """
    free = {
        user_id: [grant.last_box_id - grant.box_ids, grant.last_pts - grant.pts]
        for user_id, grant in grants.items()
    }
    sent: dict[int, SentMessage] = {}
    rows: list[tuple[Any, ...]] = []
    drafts: list[tuple[Any, ...]] = []
    moves = Moves()
    for i, verdict in live.items():
        request = requests[i]
        here, peer = request.sender_user_id, request.peer
        there = peer.id
        box_id = pts = there_box_id = there_pts = 0
        is_service = here == SERVICE_USER_ID
        if not is_service:
            ids = free[here]
            box_id, pts = ids[0], ids[1] = ids[0] + 1, ids[1] + 1
        if verdict.arrives:
            free[there][1] += 1
            mute_pts = free[there][1]
        if verdict.reaches:
            ids = free[there]
            there_box_id, there_pts = ids[0], ids[1] = ids[0] + 1, ids[1] + 1
        if verdict.draft_pts:
            ids = free[here]
            ids[1] += 1
            drafts.append((here, peer.type, there, verdict.draft_pts, ids[1], request.date, bucket_of(here)))
        if verdict.unarchives:
            ids = free[there]
            ids[1] += 1
            moves.back.append(Return(there, here, ids[1], request.date))
        if verdict.arrives:
            free[there][1] += 1
            messages = sum(requests[j].sender_user_id == here and requests[j].peer == peer for j in live)
            moves.away.append(Arrival(there, here, mute_pts, free[there][1], request.date, messages))
        message_id = message_ids.next()
        reply_to = request.reply_to
        rows.append(
            (
                here,
                request.random_id,
                message_id,
                peer.type,
                there,
                request.date,
                request.text,
                to_json(entities_to_json(request.entities)) if request.entities else None,
                request.digest,
                box_id,
                pts,
                there,
                there_box_id,
                there_pts,
                request.silent,
                request.noforwards,
                reply_to.box_id if reply_to else None,
                (verdict.reply_there or None) if reply_to else None,
                to_json(quote_to_json(reply_to)) if reply_to else None,
                request.origin.auth_key_id,
                request.origin.session_id,
                bucket_of(here),
                bucket_of(there),
                request.flags,
                request.date + verdict.ttl_s if verdict.ttl_s else None,
                to_json(fwd_to_json(request.fwd)),
            )
        )
        if is_service:
            box = _box(request, verdict, message_id, there, there_box_id, Peer.user(here), there_pts, box_id)
        else:
            box = _box(request, verdict, message_id, here, box_id, peer, pts, there_box_id)
        sent[i] = SentMessage(box, box.pts, 1)
    ended = [*zip(*sorted(drafts), strict=True), now_ms] if drafts else []
    return sent, [*zip(*rows, strict=True), now_ms], ended, moves


def _box(
    request: SendRequest,
    verdict: Verdict,
    message_id: int,
    owner: int,
    box_id: int,
    peer: Peer,
    pts: int,
    peer_box_id: int,
) -> MessageBox:
    return MessageBox(
        owner_user_id=owner,
        box_id=box_id,
        peer=peer,
        from_user_id=request.sender_user_id,
        outgoing=owner == request.sender_user_id,
        message_id=message_id,
        date=request.date,
        text=request.text,
        entities=request.entities,
        silent=request.silent,
        noforwards=request.noforwards,
        reply_to=request.reply_to,
        peer_box_id=peer_box_id,
        flags=request.flags,
        pts=pts,
        random_id=request.random_id,
        expires_at=request.date + verdict.ttl_s if verdict.ttl_s else None,
        fwd=request.fwd,
    )
