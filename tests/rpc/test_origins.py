"""A session gets no push of what it did when the answer has the pts of it, and else as all others do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from telesrv import tl
from telesrv.clock import FakeClock
from telesrv.domain.origin import NOBODY, Origin
from telesrv.tl import functions as f
from telesrv.tl import types
from tests.rpc.chats import Device, Server, fresh, running
from tests.rpc.test_filters import a_filter

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
    listed: types.InputPeerUser
    """A contact who is blocked."""

    @property
    def dialog(self) -> types.InputDialogPeer:
        return types.InputDialogPeer(peer=self.peer)

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
        listed = device.peer(await server.account("Cid"))
        chat = cls(server, device, other, peer, received, sent, waiting, listed)
        for method in (
            f.messages.UpdatePinnedMessage(peer=peer, id=sent),
            f.messages.ToggleDialogPin(peer=chat.dialog, pinned=True),
            f.messages.MarkDialogUnread(peer=chat.dialog, unread=True),
            f.messages.SaveDraft(peer=listed, message="half"),
            f.messages.UpdateDialogFilter(id=2, filter=a_filter(2, contacts=True)),
            f.account.UpdateNotifySettings(
                peer=types.InputNotifyUsers(), settings=types.InputPeerNotifySettings(silent=True)
            ),
            f.contacts.AddContact(id=user(listed), first_name="C", last_name="", phone=""),
            f.contacts.Block(id=listed),
        ):
            await device.call(method)
        await server.pushes_of([device.user_id, other.user_id])
        return chat


def user(peer: types.InputPeerUser) -> types.InputUser:
    return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)


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
"""Each kind of call whose answer has the pts, and how many events its own account and the other one get."""
SILENT: Final[dict[str, Callable[[Chat], Any]]] = {
    "mark as read": lambda c: f.messages.MarkDialogUnread(peer=c.dialog, unread=False),
    "draft": lambda c: f.messages.SaveDraft(peer=c.peer, message="half a"),
    "clear drafts": lambda c: f.messages.ClearAllDrafts(),
    "unpin a chat": lambda c: f.messages.ToggleDialogPin(peer=c.dialog, pinned=False),
    "order the pins": lambda c: f.messages.ReorderPinnedDialogs(folder_id=0, order=[], force=True),
    "filter": lambda c: f.messages.UpdateDialogFilter(id=3, filter=a_filter(3, contacts=True)),
    "delete a filter": lambda c: f.messages.UpdateDialogFilter(id=2),
    "order the filters": lambda c: f.messages.UpdateDialogFiltersOrder(order=[2, 0]),
    "tag by filters": lambda c: f.messages.ToggleDialogFilterTags(enabled=True),
    "close the bar": lambda c: f.messages.HidePeerSettingsBar(peer=c.peer),
    "notify": lambda c: f.account.UpdateNotifySettings(
        peer=types.InputNotifyPeer(peer=c.peer), settings=types.InputPeerNotifySettings(silent=True)
    ),
    "notify as at first": lambda c: f.account.ResetNotifySettings(),
    "privacy": lambda c: f.account.SetPrivacy(
        key=types.InputPrivacyKeyStatusTimestamp(), rules=[types.InputPrivacyValueDisallowAll()]
    ),
    "profile": lambda c: f.account.UpdateProfile(first_name="Adele"),
    "username": lambda c: f.account.UpdateUsername(username="adele_here"),
    "birthday": lambda c: f.account.UpdateBirthday(birthday=types.Birthday(day=1, month=2)),
    "add a contact": lambda c: f.contacts.AddContact(id=user(c.peer), first_name="B", last_name="", phone=""),
    "import a contact": lambda c: f.contacts.ImportContacts(
        contacts=[
            types.InputPhoneContact(client_id=1, phone=c.other.user.phone, first_name="B", last_name="")
        ]
    ),
    "delete a contact": lambda c: f.contacts.DeleteContacts(id=[user(c.listed)]),
    "note": lambda c: f.contacts.UpdateContactNote(
        id=user(c.listed), note=types.TextWithEntities(text="tall", entities=[])
    ),
    "block": lambda c: f.contacts.Block(id=c.peer),
    "unblock": lambda c: f.contacts.Unblock(id=c.listed),
    "block exactly these": lambda c: f.contacts.SetBlocked(id=[c.peer], limit=1),
}
"""Each kind of call that tells its own account of something and whose answer has no pts."""


@pytest.mark.parametrize("name", CALLS)
async def test_only_the_calling_session_is_not_told(server: Server, name: str) -> None:
    method, own, theirs = CALLS[name]
    chat = await Chat.of(server)
    answer = await chat.device.call(method(chat))
    pushes = await server.pushes_of([chat.device.user_id, chat.other.user_id])
    assert highest_pts(answer) == max(push.pts for push in pushes[chat.device.user_id])
    told = {
        user_id: [Origin(push.exclude_auth_key_id, push.exclude_session_id) for push in some]
        for user_id, some in pushes.items()
    }
    assert told == {
        chat.device.user_id: [chat.device.caller.origin] * own,
        chat.other.user_id: [NOBODY] * theirs,
    }


@pytest.mark.parametrize("name", SILENT)
async def test_the_calling_session_is_told_what_its_answer_does_not_say(server: Server, name: str) -> None:
    chat = await Chat.of(server)
    replica = await fresh(chat.device, [chat.device, chat.other])
    before = replica.pts
    answer = await chat.device.call(SILENT[name](chat))
    pushes = (await server.pushes_of([chat.device.user_id]))[chat.device.user_id]
    assert highest_pts(answer) == 0
    assert {(push.exclude_auth_key_id, push.exclude_session_id) for push in pushes} == {NOBODY}
    replica.follow_pushes(pushes, chat.device)
    assert replica.pts == await chat.device.pts() > before


def highest_pts(answer: Any) -> int:
    """Returns the highest pts that an answer names, 0 without any."""
    if isinstance(answer, list):
        return max(map(highest_pts, answer), default=0)
    if not isinstance(answer, tl.TLObject):
        return 0
    named = getattr(answer, "pts", None) or 0
    return max([named, *(highest_pts(getattr(answer, field)) for field in answer.__slots__)])
