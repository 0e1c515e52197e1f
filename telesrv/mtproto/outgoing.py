"""What the server has to say in a session: the queue, what awaits acknowledgement, and their bounds.

Guarantees: a content-related message is kept until the client acknowledges it, and after a new connection
it is sent again: under its own msg_id and seq_no while that is young, under fresh ones later. Nothing is
sent twice over one connection by itself (several clients count repeated msg_ids as an attack). A passing
update, such as a typing notice, is sent over the connection it was made for or not at all. Updates may go
where a bound says so; then ``lost_updates`` tells.

*Spec: Service Messages about Messages*
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from telesrv.mtproto.limits import SessionLimits

SERVICE: Final = 0
ANSWER: Final = 1
UPDATE: Final = 2


class Outgoing:
    """One message on its way; ``msg_id`` is 0 until it is first sent."""

    __slots__ = (
        "body",
        "content_related",
        "done",
        "kind",
        "msg_id",
        "passing",
        "queued",
        "reply",
        "req_msg_id",
        "seq_no",
    )

    def __init__(
        self,
        body: bytes,
        kind: int,
        *,
        reply: bool,
        content_related: bool,
        req_msg_id: int = 0,
        passing: bool = False,
    ) -> None:
        self.body = body
        self.kind = kind
        self.reply = reply
        self.content_related = content_related
        self.req_msg_id = req_msg_id
        self.passing = passing
        self.msg_id = 0
        self.seq_no = 0
        self.queued = False
        self.done = False


class Outbound:
    """The queue of a session and the messages that were sent and not acknowledged."""

    __slots__ = (
        "_answers",
        "_limits",
        "_queue",
        "_sent",
        "_updates",
        "answer_bytes",
        "lost_updates",
        "update_bytes",
    )

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._queue: deque[Outgoing] = deque()
        self._sent: dict[int, Outgoing] = {}
        self._answers: dict[Outgoing, None] = {}  # oldest first, queued or sent
        self._updates: dict[Outgoing, None] = {}
        self.answer_bytes = 0
        self.update_bytes = 0
        self.lost_updates = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def unacknowledged(self) -> int:
        """How many messages were sent and not acknowledged."""
        return len(self._sent)

    def is_taken(self, msg_id: int) -> bool:
        """Tells whether an unacknowledged message has this id."""
        return msg_id in self._sent

    def sent(self, msg_id: int) -> Outgoing | None:
        """Returns the unacknowledged message with this id."""
        return self._sent.get(msg_id)

    def add(self, out: Outgoing, *, first: bool = False) -> None:
        """Queues a message, behind the others unless ``first``; answers and updates count for bounds."""
        out.queued = True
        if first:
            self._queue.appendleft(out)
        else:
            self._queue.append(out)
        self._count(out)

    def _count(self, out: Outgoing) -> None:
        if out.kind == ANSWER:
            self._answers[out] = None
            self.answer_bytes += len(out.body)
        elif out.kind == UPDATE:
            self._updates[out] = None
            self.update_bytes += len(out.body)

    def kept(self) -> list[Outgoing]:
        """Returns what awaits the client's acknowledgement: what was sent, then what was not, in order."""
        waiting = [out for out in self._queue if not (out.msg_id or out.done) and out.content_related]
        return [out for out in (*self._sent.values(), *waiting) if not out.passing]

    def restore(self, kept: Iterable[Outgoing]) -> None:
        """Takes over what another process kept, in the order of ``kept()``."""
        for out in kept:
            if out.msg_id:
                self._sent[out.msg_id] = out
                self._count(out)
            else:
                self.add(out)

    def requeue(self, out: Outgoing) -> None:
        """Queues a message that was sent before, once."""
        if not out.queued and not out.done:
            out.queued = True
            self._queue.append(out)

    def requeue_sent(self) -> None:
        """Queues what was not acknowledged, but for passing updates: the connection it went over is gone."""
        for out in list(self._sent.values()):
            if out.passing:
                self.finish(out)
            else:
                self.requeue(out)

    def take(self) -> list[Outgoing]:
        """Empties the queue; what was acknowledged or dropped meanwhile is left out."""
        taken = []
        for out in self._queue:
            out.queued = False
            if not out.done:
                taken.append(out)
        self._queue.clear()
        return taken

    def note_sent(self, out: Outgoing) -> None:
        """Remembers a content-related message under its msg_id until it is acknowledged."""
        self._sent[out.msg_id] = out

    def withdraw_id(self, out: Outgoing) -> None:
        """Takes the old msg_id from a message that is about to get a fresh one."""
        self._sent.pop(out.msg_id, None)
        out.msg_id = 0

    def finish(self, out: Outgoing) -> None:
        """Forgets a message: it was acknowledged, or must not be sent any more."""
        out.done = True
        if out.msg_id:
            self._sent.pop(out.msg_id, None)
        if out.kind == ANSWER:
            if out in self._answers:
                del self._answers[out]
                self.answer_bytes -= len(out.body)
        elif out.kind == UPDATE and out in self._updates:
            del self._updates[out]
            self.update_bytes -= len(out.body)

    def drop_queued_service(self) -> None:
        """Drops queued service messages that need no acknowledgement: who asked for them is gone."""
        self._queue = deque(out for out in self._queue if out.content_related)

    def drop_passing(self) -> None:
        """Drops passing updates, queued or unacknowledged: the connection they were made for is gone."""
        for out in [out for out in self._updates if out.passing]:
            self.finish(out)
        self._queue = deque(out for out in self._queue if not out.done)

    def drop_updates(self) -> None:
        """Drops every update, queued or unacknowledged."""
        for out in list(self._updates):
            self.finish(out)
        self._queue = deque(out for out in self._queue if not out.done)

    def bound_updates(self, *, connected: bool) -> None:
        """Keeps the updates within their bounds; sets ``lost_updates`` when any had to go.

        While connected only those that were sent go, oldest first: they are in the client's hands or in its
        socket, and what is still queued leaves with the next flush. While disconnected all go: after a gap
        the client has to ask for the difference anyway. Passing ones go first: nobody misses them.
        """
        if self._within_bounds():
            return
        for out in [out for out in self._updates if out.passing and out.msg_id]:
            self.finish(out)
        if self._within_bounds():
            return
        self.lost_updates = True
        if not connected:
            self.drop_updates()
            return
        for out in [out for out in self._updates if out.msg_id]:
            if self._within_bounds():
                return
            self.finish(out)

    def _within_bounds(self) -> bool:
        limits = self._limits
        return len(self._updates) <= limits.max_updates and self.update_bytes <= limits.max_update_bytes

    def excess_answers(self) -> Iterator[Outgoing]:
        """Yields the oldest answers as long as they take more bytes than allowed, the newest never."""
        if self.answer_bytes <= self._limits.max_answer_bytes:
            return
        for out in list(self._answers)[:-1]:
            yield out
            if self.answer_bytes <= self._limits.max_answer_bytes:
                return

    def surplus_answers(self) -> Iterable[Outgoing]:
        """Returns the oldest answers beyond their allowed number."""
        surplus = len(self._answers) - self._limits.max_answers
        return tuple(islice(self._answers, surplus)) if surplus > 0 else ()

    def replace_answer(self, out: Outgoing, body: bytes) -> None:
        """Puts a small body in the place of an answer that takes too much room."""
        self.answer_bytes += len(body) - len(out.body)
        out.body = body
