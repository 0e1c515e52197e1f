"""Whatever a client puts into a call, it is answered or refused by name; what is refused writes nothing.

Every method of the chats that is served is called with each of its fields spoilt in turn, by its type. A
method that is served tomorrow is in here by itself.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from telesrv import tl
from telesrv.rpc.registry import Status, load
from telesrv.tl import functions, mt, types
from telesrv.tl.schema import FUNCTION, LAYER, Field, class_place, schema, vector_item
from tests.rpc.bad_peers import bad_peers
from tests.rpc.chats import Device, Replica, Server, fresh, running

MANY = 10_000
SURROGATE = "\ue000"
"""Stands for half a pair, which cannot be written: its bytes are put in afterwards."""
NAME = re.compile(r"[A-Z][A-Z0-9_]+$")
TABLES = (
    "message_boxes", "private_messages", "dialogs", "dialog_drafts", "dialog_filters", "dialog_settings",
    "contacts", "contact_blocks", "scheduled_messages", "history_ttl", "default_history_ttl",
    "top_peer_resets", "user_update_events", "dispatch_outbox",
)  # fmt: skip
WRITTEN = "SELECT " + ", ".join(f"(SELECT sum(hashtext(t::text)) FROM {table} t)" for table in TABLES)


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


@dataclass
class World:
    """Ada, who calls; Bob, whom she writes to; one she may not name; and one who is gone."""

    server: Server
    ada: Device
    bob: Device
    stranger: Device
    gone: Device

    @classmethod
    async def of(cls, server: Server) -> World:
        made = [await server.account(name) for name in ("Ada", "Bob", "Eve", "Dan")]
        world = cls(server, *made)
        for number in range(3):
            await world.ada.send(world.bob, f"words {number}")
            await world.bob.send(world.ada, f"answer {number}")
        await world.gone.send(world.ada)
        await world.gone.call(functions.account.DeleteAccount(reason=""))
        return world

    def user(self, peer: types.InputPeerUser) -> types.InputUser:
        return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)

    def good(self, type_: str) -> Any:
        """Returns a value of a TL type that a client may well send; None when it may leave it out."""
        item = vector_item(type_)
        if item is not None:
            return [self.good(item[0])]
        peer = self.ada.peer(self.bob)
        text = types.TextWithEntities(text="words", entities=[])
        return {
            "int": 1, "long": next(self.server.random_ids), "string": "words", "true": False, "Bool": True,
            "InputPeer": peer, "InputUser": self.user(peer), "TextWithEntities": text,
            "InputDialogPeer": types.InputDialogPeer(peer=peer),
            "InputFolderPeer": types.InputFolderPeer(peer=peer, folder_id=1),
            "InputMessage": types.InputMessageID(id=1),
            "InputContact": types.InputPhoneContact(
                client_id=1, phone="+15550001", first_name="Bob", last_name=""
            ),
            "InputReplyTo": types.InputReplyToMessage(reply_to_msg_id=1),
            "MessageEntity": types.MessageEntityBold(offset=0, length=1),
            "MessagesFilter": types.InputMessagesFilterEmpty(),
            "SendMessageAction": types.SendMessageTypingAction(),
            "TopPeerCategory": types.TopPeerCategoryCorrespondents(),
            "DialogFilter": types.DialogFilter(
                id=2, title=text, pinned_peers=[], include_peers=[peer], exclude_peers=[]
            ),
        }.get(type_)  # fmt: skip

    def bad(self, type_: str) -> Iterator[Any]:
        """Yields values of a TL type that no good client sends."""
        item = vector_item(type_)
        if item is not None:
            yield []
            if self.good(item[0]) is None:
                return
            yield [self.good(item[0])] * MANY
            if item[0] == "MessageEntity":
                bold = types.MessageEntityBold
                yield [bold(offset=0, length=4), types.MessageEntityItalic(offset=2, length=4)]
                yield [bold(offset=number % 4, length=2) for number in range(MANY)]
            for value in self.bad(item[0]):
                yield [value]
                yield [self.good(item[0]), value, value]
        elif type_ in ("int", "long"):
            bits = 31 if type_ == "int" else 63
            yield from (0, -1, 2**bits - 1, -(2**bits), 2**31 - 2)
        elif type_ == "string":
            yield from ("", "\0", "a\0b", f"a{SURROGATE}b", SURROGATE, "x" * 4097, "x" * 100_000, "é" * 300)
        elif type_ == "MessageEntity":
            for offset, length in ((-1, 1), (0, -1), (0, 0), (2**31 - 1, 2**31 - 1), (-(2**31), 1), (4, 99)):
                yield types.MessageEntityBold(offset=offset, length=length)
            yield types.InputMessageEntityMentionName(offset=0, length=1, user_id=types.InputUserEmpty())
        else:
            yield from self._bad_objects(type_)

    def _bad_objects(self, type_: str) -> Iterator[Any]:
        peers = [peer for peer, _ in bad_peers(self.ada, self.bob, self.stranger)]
        peers += [types.InputPeerSelf(), self.ada.peer(self.gone), self.ada.peer(777000)]
        named = [peer for peer in peers if isinstance(peer, types.InputPeerUser)]
        match type_:
            case "InputPeer":
                yield from peers
            case "InputUser":
                yield types.InputUserEmpty()
                yield from map(self.user, named)
            case "InputDialogPeer":
                yield from (types.InputDialogPeer(peer=peer) for peer in peers)
                yield from (types.InputDialogPeerFolder(folder_id=number) for number in (0, 1, -1))
            case "InputFolderPeer":
                yield from (types.InputFolderPeer(peer=peer, folder_id=1) for peer in peers)
                yield from (
                    types.InputFolderPeer(peer=self.ada.peer(self.bob), folder_id=number)
                    for number in self.bad("int")
                )
            case "InputMessage":
                yield from (types.InputMessageID(id=number) for number in self.bad("int"))
                yield types.InputMessageReplyTo(id=-1)
            case "InputReplyTo":
                yield from (types.InputReplyToMessage(reply_to_msg_id=number) for number in self.bad("int"))
                yield from (
                    types.InputReplyToMessage(reply_to_msg_id=1, quote_text=text)
                    for text in self.bad("string")
                )
            case "TextWithEntities":
                yield from (types.TextWithEntities(text=text, entities=[]) for text in self.bad("string"))
                for entities in self.bad("Vector<MessageEntity>"):
                    yield types.TextWithEntities(text="words", entities=entities)
            case "InputContact":
                for text in self.bad("string"):
                    yield types.InputPhoneContact(client_id=-1, phone=text, first_name=text, last_name=text)
            case "DialogFilter":
                yield from (self._filter(include_peers=[peer]) for peer in peers)
                yield self._filter(include_peers=[self.ada.peer(self.bob)] * MANY)
                yield from (self._filter(title=title) for title in self._bad_objects("TextWithEntities"))
                yield from (self._filter(emoticon=text) for text in self.bad("string"))
                yield from (self._filter(color=number) for number in self.bad("int"))

    def _filter(self, **fields: Any) -> types.DialogFilter:
        filter_ = self.good("DialogFilter")
        for name, value in fields.items():
            setattr(filter_, name, value)
        assert isinstance(filter_, types.DialogFilter)
        return filter_

    async def call(self, method: Any) -> mt.RpcError | None:
        """Makes Ada's call; returns what it was refused by."""
        body = tl.write(method).replace(SURROGATE.encode(), b"\xed\xa0\x80")
        dispatcher, caller = self.server.dispatcher, self.ada.caller
        outcome = await dispatcher.execute(dispatcher.parse(body), caller)
        if outcome.ok:
            return None
        error = tl.read(outcome.body)
        assert isinstance(error, mt.RpcError)
        return error

    async def written(self) -> tuple[Any, ...]:
        row = await self.server.store.pool.fetchrow(WRITTEN)
        assert row is not None
        return tuple(row)


def methods() -> dict[str, tuple[type, tuple[Field, ...]]]:
    """Returns the served methods of chats, with their fields."""
    found = {}
    for method, served in load().items():
        module, _ = class_place(FUNCTION, served.name)
        if module.rpartition(".")[2] in ("messages", "contacts", "folders") and served.status is Status.DONE:
            variant = schema().at(FUNCTION, served.name, LAYER)
            assert variant is not None, served.name
            found[served.name] = (method, variant.attributes)
    return found


def fields_of(world: World, fields: tuple[Field, ...]) -> dict[str, Any]:
    return {field.attribute: world.good(field.type) for field in fields if not field.optional}


async def test_what_is_spoilt_is_refused_by_name_and_writes_nothing(server: Server) -> None:
    world = await World.of(server)
    served = methods()
    assert len(served) > 60
    wrong: list[str] = []
    refused: set[str] = set()
    for name, (method, fields) in sorted(served.items()):
        for field in fields:
            for value in world.bad(field.type):
                server.clock.advance(3600)  # no limit is in the way
                asked = method(**(fields_of(world, fields) | {field.attribute: value}))
                before = await world.written()
                error = await world.call(asked)
                if error is None:
                    continue
                said = f"{error.error_code} {error.error_message}"
                refused.add(said)
                case = f"{name}({field.name}={repr(value)[:120]}): {said}"
                if error.error_code not in (400, 403) or not NAME.match(error.error_message):
                    wrong.append(case)
                elif await world.written() != before:
                    wrong.append(f"{case}, and something was written")
    assert not wrong, "\n".join(wrong)
    assert len(refused) > 20, refused
    # What was taken has spoilt nothing that is shown, in no layer.
    for device, other in ((world.ada, world.bob), (world.bob, world.ada)):
        await fresh(device, [other])
        old = await server.device(device.user, layer=152)
        await old.dialogs()
        await old.history(other)
        for reader in (device, old):
            await Replica(device.user_id, 1).catch_up(reader)


async def test_a_peer_that_may_not_be_named_is_told_by_its_error(server: Server) -> None:
    world = await World.of(server)
    wrong: list[str] = []
    for name, (method, fields) in sorted(methods().items()):
        for field in fields:
            if field.type != "InputPeer" or field.name not in ("peer", "to_peer", "from_peer"):
                continue
            for peer, expected in bad_peers(world.ada, world.bob, world.stranger):
                server.clock.advance(3600)
                error = await world.call(method(**(fields_of(world, fields) | {field.attribute: peer})))
                if name == "messages.search" and isinstance(peer, types.InputPeerEmpty):
                    continue  # all chats
                if error is None or (error.error_code, error.error_message) != (400, expected):
                    wrong.append(f"{name}({field.name}={peer!r}): {error}, not {expected}")
    assert not wrong, "\n".join(wrong)
