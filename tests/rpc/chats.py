"""Devices that call the dispatcher over a real store, and replicas that follow the updates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from telesrv import tl
from telesrv.clock import FakeClock
from telesrv.domain.peers import Peer, access_hash
from telesrv.domain.updates import OutboxItem, bucket_of
from telesrv.domain.users import ClientInfo, User
from telesrv.rpc import Caller, Dispatcher, RpcConfig
from telesrv.rpc.pushes import Push, PushBuilder
from telesrv.store import Store, StoreConfig
from telesrv.tl import functions, mt, types
from tests.rpc.arranged import Arranged, Compared, compared_arranged, differing, fresh_arranged
from tests.support.waiting import PATIENCE_S

BUCKETS = 64


class Refused(Exception):
    """The call was answered by rpc_error."""

    def __init__(self, error: mt.RpcError) -> None:
        super().__init__(f"{error.error_code} {error.error_message}")
        self.code = error.error_code
        self.type = error.error_message


@dataclass
class Sessions:
    """The hub's side of the port: keeps what it was told."""

    transient: list[tuple[int, object]] = field(default_factory=list)

    async def bind_temp_key(self, temp_auth_key_id: int, perm_auth_key_id: int) -> None: ...

    async def logged_in(self, auth_key_id: int, user_id: int) -> None: ...

    async def log_out(self, auth_key_ids: Iterable[int]) -> None: ...

    async def noticed(self, auth_key_id: int, user_id: int | None) -> None: ...

    async def went_offline(self, user_id: int) -> None: ...

    async def with_sessions(self, user_ids: Collection[int]) -> list[int]:
        return list(user_ids)

    async def push_transient(
        self, user_id: int, update: types.TypeUpdate, exclude: tuple[int, int] | None = None
    ) -> None:
        self.transient.append((user_id, update))


class Device:
    """One logged-in session of an account."""

    def __init__(self, server: Server, user: User, auth_key_id: int, session_id: int, layer: int) -> None:
        self.server = server
        self.user = user
        self.caller = Caller(auth_key_id=auth_key_id, session_id=session_id, layer=layer)

    @property
    def user_id(self) -> int:
        return self.user.user_id

    async def call(self, method: Any) -> Any:
        """Returns the answer as this device reads it.

        Raises:
            Refused: the answer is an rpc_error.
        """
        dispatcher = self.server.dispatcher
        outcome = await dispatcher.execute(dispatcher.parse(tl.write(method, self.caller.layer)), self.caller)
        if outcome.ok:
            return tl.read_result(outcome.body, method.RESULT)
        error = tl.read(outcome.body)
        assert isinstance(error, mt.RpcError)
        raise Refused(error)

    def peer(self, other: Device | int) -> types.InputPeerUser:
        """Returns how this device names the other account."""
        user_id = other if isinstance(other, int) else other.user_id
        hash_ = access_hash(self.server.store.secret, self.user_id, Peer.user(user_id))
        return types.InputPeerUser(user_id=user_id, access_hash=hash_)

    async def send(self, to: Device | types.TypeInputPeer, text: str = "hello", **fields: Any) -> Any:
        peer = self.peer(to) if isinstance(to, Device) else to
        fields.setdefault("random_id", next(self.server.random_ids))
        return await self.call(functions.messages.SendMessage(peer=peer, message=text, **fields))

    async def history(self, of: Device | types.TypeInputPeer, **fields: Any) -> Any:
        arguments = {"offset_id": 0, "offset_date": 0, "add_offset": 0, "limit": 100} | fields
        peer = self.peer(of) if isinstance(of, Device) else of
        zeros = {"max_id": 0, "min_id": 0, "hash": 0} | arguments
        return await self.call(functions.messages.GetHistory(peer=peer, **zeros))

    async def dialogs(self, **fields: Any) -> Any:
        arguments: dict[str, Any] = {
            "offset_date": 0, "offset_id": 0, "offset_peer": types.InputPeerEmpty(), "limit": 100, "hash": 0
        }  # fmt: skip
        return await self.call(functions.messages.GetDialogs(**(arguments | fields)))

    async def read(self, of: Device, max_id: int = 0) -> types.messages.AffectedMessages:
        answer = await self.call(functions.messages.ReadHistory(peer=self.peer(of), max_id=max_id))
        assert isinstance(answer, types.messages.AffectedMessages)
        return answer

    async def difference(self, pts: int, **fields: Any) -> Any:
        return await self.call(functions.updates.GetDifference(pts=pts, date=0, qts=-1, **fields))

    async def pts(self) -> int:
        state = await self.call(functions.updates.GetState())
        return int(state.pts)


@dataclass
class Server:
    """A dispatcher over a store of the test's own."""

    store: Store
    clock: FakeClock
    sessions: Sessions
    dispatcher: Dispatcher
    random_ids: count[int] = field(default_factory=lambda: count(1))
    _keys: count[int] = field(default_factory=lambda: count(101))
    _phones: count[int] = field(default_factory=lambda: count(15_550_000))

    async def account(self, first_name: str = "Ada") -> Device:
        """Returns a device of a new account."""
        user = await self.store.accounts.sign_up(str(next(self._phones)), first_name)
        return await self.device(user)

    async def device(self, user: User, layer: int = tl.LAYER) -> Device:
        """Returns another device of the account, whose client speaks *layer*."""
        key = next(self._keys)
        await self.store.accounts.bind(key, user.user_id, "127.0.0.1", ClientInfo())
        return Device(self, user, key, key + 10_000, layer)

    async def pushes(self, user_id: int) -> list[Push]:
        """Claims every row of the outbox and returns the pushes of one account, in order."""
        rows: list[OutboxItem] = []
        for bucket in range(BUCKETS):
            while claimed := await self.store.outbox.claim({bucket}):
                rows += await self.store.outbox.read(claimed)
                await self.store.outbox.done(claimed)
        mine = [item for item in rows if item.row.target_user_id == user_id]
        return await PushBuilder(self.store).build(user_id, mine)

    async def pushes_of(self, user_ids: Iterable[int]) -> dict[int, list[Push]]:
        """Claims the rows that the outbox owes some accounts and returns their pushes, in order."""
        owed: dict[int, list[OutboxItem]] = {user_id: [] for user_id in user_ids}
        for bucket in sorted({bucket_of(user_id) for user_id in owed}):
            while claimed := await self.store.outbox.claim({bucket}):
                for item in await self.store.outbox.read(claimed):
                    owed.get(item.row.target_user_id, []).append(item)
                await self.store.outbox.done(claimed)
        builder = PushBuilder(self.store)
        return {user_id: await builder.build(user_id, items) for user_id, items in owed.items()}


@asynccontextmanager
async def running(
    postgres_dsn: str, redis_url: str, redis_prefix: str, **settings: Any
) -> AsyncIterator[Server]:
    """A server over this database, closed afterwards."""
    clock = FakeClock()
    config = StoreConfig(
        postgres_dsn=postgres_dsn,
        redis_url=redis_url,
        redis_prefix=redis_prefix,
        clock=clock,
        **({"min_conns": 1, "max_conns": 8, "wait_s": PATIENCE_S, "message_rate_limit": 0} | settings),
    )
    store = await Store.open(config)
    try:
        sessions = Sessions()
        yield Server(store, clock, sessions, Dispatcher(store, RpcConfig(), clock, sessions))
    finally:
        await store.close()


@dataclass
class Replica:
    """What a client knows that only ever follows updates, by the rules of the public specification."""

    user_id: int
    pts: int
    messages: dict[int, types.Message] = field(default_factory=dict)
    unread: dict[int, int] = field(default_factory=dict)
    read_inbox: dict[int, int] = field(default_factory=dict)
    read_outbox: dict[int, int] = field(default_factory=dict)
    users: set[int] = field(default_factory=set)
    names: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    """First name, last name and username of those it has been told of."""
    phones: dict[int, str] = field(default_factory=dict)
    message_ids: dict[int, int] = field(default_factory=dict)
    arranged: Arranged = field(default_factory=Arranged)
    privacy: dict[str, list[Any]] = field(default_factory=dict)
    notify: dict[str, Any] = field(default_factory=dict)
    scheduled: dict[int, types.Message] = field(default_factory=dict)
    history_ttl: dict[int, int] = field(default_factory=dict)

    def follow(self, update: Any) -> None:
        """Applies one update whose pts is in order."""
        if hasattr(update, "pts"):
            assert update.pts - update.pts_count == self.pts
            self.pts = update.pts
        self.apply(update)

    def apply(self, update: Any) -> None:
        self.arranged.apply(update)
        match update:
            case types.UpdateNewMessage():
                self.add(update.message)
            case types.UpdateReadHistoryInbox():
                self.read_inbox[update.peer.user_id] = update.max_id
                self.unread[update.peer.user_id] = update.still_unread_count
            case types.UpdateReadHistoryOutbox():
                self.read_outbox[update.peer.user_id] = update.max_id
            case types.UpdateEditMessage():
                self.messages[update.message.id] = update.message
            case types.UpdateDeleteMessages():
                for box_id in update.messages:
                    self.remove(box_id)
            case types.UpdatePinnedMessages():
                for box_id in update.messages:
                    if box_id in self.messages:
                        self.messages[box_id].pinned = update.pinned
            case types.UpdateReadMessagesContents():
                for box_id in update.messages:
                    if box_id in self.messages:
                        self.messages[box_id].media_unread = False
            case types.UpdatePrivacy():
                self.privacy[type(update.key).__name__] = update.rules
            case types.UpdateNotifySettings():
                self.notify[repr(update.peer)] = update.notify_settings
            case types.UpdateUserName():
                username = update.usernames[0].username if update.usernames else ""
                self.names[update.user_id] = (update.first_name, update.last_name, username)
            case types.UpdateUserPhone():
                self.phones[update.user_id] = update.phone
            case types.UpdateNewScheduledMessage():
                self.scheduled[update.message.id] = update.message
            case types.UpdateDeleteScheduledMessages():
                for scheduled_id in update.messages:
                    self.scheduled.pop(scheduled_id, None)
            case types.UpdatePeerHistoryTTL():
                self.history_ttl[update.peer.user_id] = update.ttl_period or 0
            case types.UpdateMessageID():
                self.message_ids[update.random_id] = update.id

    def learn(self, users: Iterable[Any]) -> None:
        """Takes the accounts that an answer shows over."""
        for user in users:
            self.names[user.id] = (user.first_name or "", user.last_name or "", user.username or "")
            self.phones[user.id] = user.phone or ""

    def add(self, message: Any) -> None:
        self.messages[message.id] = message
        if not message.out:
            peer_id = message.peer_id.user_id
            self.unread[peer_id] = self.unread.get(peer_id, 0) + 1

    def remove(self, box_id: int) -> None:
        """Takes a message out, and out of what is unread."""
        message = self.messages.pop(box_id, None)
        if message is None or message.out:
            return
        peer_id = message.peer_id.user_id
        if box_id > self.read_inbox.get(peer_id, 0):
            self.unread[peer_id] -= 1

    def follow_pushes(self, pushes: Iterable[Push], device: Device, *, all_sessions: bool = False) -> None:
        """Applies the pushes that this device's session gets, and its own answers' pts for the others.

        With *all_sessions* nothing is left out, as for another session of the account.
        """
        for push in pushes:
            if push.exclude_auth_key_id == device.caller.auth_key_id and not all_sessions:
                assert push.exclude_session_id == device.caller.session_id
                self.pts = push.pts
                continue
            self.learn(push.update.users)
            shown = {user.id for user in push.update.users}
            for update in push.update.updates:
                assert named_users(update) <= shown
                self.follow(update)

    async def catch_up(self, device: Device, **fields: Any) -> int:
        """Asks for differences until there is no more; returns how many answers that took."""
        for turn in count(1):
            answer = await device.difference(self.pts, **fields)
            if isinstance(answer, types.updates.DifferenceEmpty):
                return turn
            self.learn(answer.users)
            for message in answer.new_messages:
                self.add(message)
                assert named_users(message) <= {user.id for user in answer.users}
            for update in answer.other_updates:
                assert named_users(update) <= {user.id for user in answer.users}
                self.apply(update)
            if isinstance(answer, types.updates.DifferenceSlice):
                self.pts = answer.intermediate_state.pts
                continue
            self.pts = answer.state.pts
        raise AssertionError


def named_users(value: Any) -> set[int]:
    """Returns every account that a TL value names by a PeerUser or a mention."""
    if isinstance(value, types.PeerUser | types.MessageEntityMentionName):
        return {value.user_id}
    if isinstance(value, list):
        return set[int]().union(*map(named_users, value))
    if isinstance(value, tl.TLObject):
        return set[int]().union(*(named_users(getattr(value, name)) for name in value.__slots__))
    return set()


async def whole_history(device: Device, other: Device) -> list[Any]:
    """Returns all messages of a chat, the newest first."""
    messages: list[Any] = []
    while True:
        page = await device.history(other, offset_id=messages[-1].id if messages else 0)
        messages += page.messages
        if not page.messages or isinstance(page, types.messages.Messages):
            return messages


async def fresh(device: Device, others: Iterable[Device]) -> Replica:
    """Returns what a client knows that has just logged in and asked for everything."""
    replica = Replica(device.user_id, await device.pts())
    answer = await device.dialogs()
    listed = {dialog.peer.user_id: dialog for dialog in answer.dialogs}
    for peer_id, dialog in listed.items():
        replica.unread[peer_id] = dialog.unread_count
        replica.read_inbox[peer_id] = dialog.read_inbox_max_id
        replica.read_outbox[peer_id] = dialog.read_outbox_max_id
    for other in others:
        for message in await whole_history(device, other):
            replica.messages[message.id] = message
        waiting = functions.messages.GetScheduledHistory(peer=device.peer(other), hash=0)
        for message in (await device.call(waiting)).messages:
            replica.scheduled[message.id] = message
        named = device.peer(other)
        profile = types.InputUser(user_id=named.user_id, access_hash=named.access_hash)
        full = (await device.call(functions.users.GetFullUser(id=profile))).full_user
        replica.history_ttl[other.user_id] = full.ttl_period or 0
        replica.learn(await device.call(functions.users.GetUsers(id=[profile])))
        _agree(replica, full, listed.get(other.user_id))
    replica.arranged = await fresh_arranged(device, others)
    state = await device.call(functions.updates.GetState())
    assert state.unread_count == sum(replica.unread.values())
    return replica


def _agree(known: Replica, full: Any, dialog: Any) -> None:
    """Asserts that the entry of a chat, its profile page and its messages, also scheduled ones, agree."""
    peer_id = full.id
    messages = [message for message in known.messages.values() if message.peer_id.user_id == peer_id]
    pinned = [message.id for message in messages if getattr(message, "pinned", False)]
    assert full.pinned_msg_id == max(pinned, default=None)
    waiting = [message for message in known.scheduled.values() if message.peer_id.user_id == peer_id]
    assert full.has_scheduled == bool(waiting)
    if dialog is None:
        assert not messages and full.folder_id is None
        return
    assert dialog.top_message == max((message.id for message in messages), default=0)
    read = dialog.read_inbox_max_id
    assert dialog.unread_count == sum(not message.out and message.id > read for message in messages)
    assert (dialog.ttl_period, dialog.folder_id) == (full.ttl_period, full.folder_id)
    assert dialog.notify_settings == full.notify_settings


def _begun_anew(fresh: Replica, peer_id: int, mark: int, asked: dict[int, int]) -> bool:
    """Tells whether a read mark is of before the chat was deleted: nothing of it is left at or below."""
    ids = (message.id for message in fresh.messages.values() if message.peer_id.user_id == peer_id)
    return not asked.get(peer_id) and all(box_id > mark for box_id in ids)


def compared(followed: Replica, fresh: Replica) -> Iterator[Compared]:
    """Yields what following the updates and asking afresh must know alike."""
    yield "pts", followed.pts, fresh.pts
    yield "messages", followed.messages, fresh.messages
    yield from compared_arranged(followed.arranged, fresh.arranged)
    yield "scheduled", followed.scheduled, fresh.scheduled
    yield (
        "names",
        {user_id: name for user_id, name in followed.names.items() if user_id in fresh.names},
        {user_id: name for user_id, name in fresh.names.items() if user_id in followed.names},
    )
    for name in ("unread", "read_inbox", "read_outbox", "history_ttl"):
        known, asked = getattr(followed, name), getattr(fresh, name)
        if name in ("read_inbox", "read_outbox"):
            known = {peer: mark for peer, mark in known.items() if not _begun_anew(fresh, peer, mark, asked)}
        yield (
            name,
            {peer: value for peer, value in known.items() if value},
            {peer: value for peer, value in asked.items() if value},
        )


def same(followed: Replica, fresh: Replica) -> None:
    """Asserts that following the updates and asking afresh come to the same."""
    assert not differing(compared(followed, fresh))
