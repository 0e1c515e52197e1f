"""A call whose answer has the pts of what it did: its own session gets no push of it, all others do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.origin import NOBODY, Origin
from telesrv.tl import functions as f
from telesrv.tl import types
from tests.rpc.chats import Device, Server, running

LATER: Final = int(FakeClock().time()) + 1000


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


@dataclass
class Chat:
    """A chat of two in which there is something to do of every kind, as one side names it."""

    server: Server
    device: Device
    other: Device
    peer: types.InputPeerUser
    received: int
    """An unread message whose contents are unread too."""
    sent: int
    """A pinned message of one's own."""
    waiting: int
    """A message that waits for its time."""

    @classmethod
    async def of(cls, server: Server) -> Chat:
        device, other = await server.account("Ada"), await server.account("Bob")
        peer = device.peer(other)
        sent = (await device.send(other)).id
        waiting = (await device.send(other, "later", schedule_date=LATER)).updates[0].id
        await other.send(device)
        received = (await device.history(other)).messages[0].id
        await server.store.pool.execute(
            "UPDATE message_boxes SET media_unread = true WHERE owner_user_id = $1 AND box_id = $2",
            device.user_id,
            received,
        )
        dialog = types.InputDialogPeer(peer=peer)
        for method in (
            f.messages.UpdatePinnedMessage(peer=peer, id=sent),
            f.messages.ToggleDialogPin(peer=dialog, pinned=True),
            f.messages.MarkDialogUnread(peer=dialog, unread=True),
        ):
            await device.call(method)
        await server.pushes_of([device.user_id, other.user_id])
        return cls(server, device, other, peer, received, sent, waiting)


CALLS: Final[dict[str, tuple[Callable[[Chat], Any], int, int]]] = {
    "send": (lambda c: f.messages.SendMessage(peer=c.peer, message="new", random_id=77), 1, 1),
    "schedule": (
        lambda c: f.messages.SendMessage(peer=c.peer, message="new", random_id=77, schedule_date=LATER),
        1,
        0,
    ),
    "forward": (
        lambda c: f.messages.ForwardMessages(from_peer=c.peer, id=[c.sent], random_id=[77], to_peer=c.peer),
        1,
        1,
    ),
    "edit": (lambda c: f.messages.EditMessage(peer=c.peer, id=c.sent, message="mended"), 1, 1),
    "edit what waits": (
        lambda c: f.messages.EditMessage(
            peer=c.peer, id=c.waiting, message="mended", schedule_date=LATER + 1
        ),
        1,
        0,
    ),
    "send what waits": (lambda c: f.messages.SendScheduledMessages(peer=c.peer, id=[c.waiting]), 2, 1),
    "delete what waits": (lambda c: f.messages.DeleteScheduledMessages(peer=c.peer, id=[c.waiting]), 1, 0),
    "read, with a mark": (lambda c: f.messages.ReadHistory(peer=c.peer, max_id=0), 2, 1),
    "read contents": (lambda c: f.messages.ReadMessageContents(id=[c.received]), 1, 0),
    "delete": (lambda c: f.messages.DeleteMessages(id=[c.sent], revoke=True), 1, 1),
    "delete a chat": (lambda c: f.messages.DeleteHistory(peer=c.peer, max_id=0, revoke=True), 1, 1),
    "pin": (lambda c: f.messages.UpdatePinnedMessage(peer=c.peer, id=c.received), 2, 2),
    "unpin": (lambda c: f.messages.UpdatePinnedMessage(peer=c.peer, id=c.sent, unpin=True), 1, 1),
    "unpin all": (lambda c: f.messages.UnpinAllMessages(peer=c.peer), 1, 1),
    "archive what was pinned": (
        lambda c: f.folders.EditPeerFolders(folder_peers=[types.InputFolderPeer(peer=c.peer, folder_id=1)]),
        2,
        0,
    ),
    "set a period": (lambda c: f.messages.SetHistoryTTL(peer=c.peer, period=86_400), 2, 2),
}
"""Each kind of call, and of how many events it tells its own account and the other one."""


@pytest.mark.parametrize("name", CALLS)
async def test_only_the_calling_session_is_not_told(server: Server, name: str) -> None:
    method, own, theirs = CALLS[name]
    chat = await Chat.of(server)
    await chat.device.call(method(chat))
    pushes = await server.pushes_of([chat.device.user_id, chat.other.user_id])
    told = {
        user_id: [Origin(push.exclude_auth_key_id, push.exclude_session_id) for push in some]
        for user_id, some in pushes.items()
    }
    assert told == {
        chat.device.user_id: [chat.device.caller.origin] * own,
        chat.other.user_id: [NOBODY] * theirs,
    }
