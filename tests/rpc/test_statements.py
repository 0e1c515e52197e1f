"""Answers take a fixed number of statements, whatever the number of messages, chats and users in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from telesrv.tl import functions, types
from tests.rpc.chats import Device, Server, running


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix, min_conns=1, max_conns=1) as server:
        yield server


@pytest.fixture
async def statements(server: Server) -> list[str]:
    """Every statement that the store's one connection has run, in order."""
    seen: list[str] = []
    async with server.store.pool.acquire() as connection:
        connection.add_query_logger(lambda record: seen.append(record.query))
    return seen


async def _history(server: Server, device: Device, others: list[Device]) -> Any:
    return await device.history(others[0])


async def _dialogs(server: Server, device: Device, others: list[Device]) -> Any:
    return await device.dialogs()


async def _peer_dialogs(server: Server, device: Device, others: list[Device]) -> Any:
    peers: list[types.TypeInputDialogPeer] = [
        types.InputDialogPeer(peer=device.peer(other)) for other in others
    ]
    return await device.call(functions.messages.GetPeerDialogs(peers=peers))


async def _messages(server: Server, device: Device, others: list[Device]) -> Any:
    named: list[types.TypeInputMessage] = [types.InputMessageID(id=number) for number in range(1, 100)]
    return await device.call(functions.messages.GetMessages(id=named))


async def _difference(server: Server, device: Device, others: list[Device]) -> Any:
    return await device.difference(1)


@pytest.mark.parametrize("ask", [_history, _dialogs, _peer_dialogs, _messages, _difference])
async def test_more_messages_and_users_take_no_more_statements(
    server: Server,
    statements: list[str],
    ask: Callable[[Server, Device, list[Device]], Awaitable[Any]],
) -> None:
    ada = await server.account()
    others = [await server.account()]
    await others[0].send(ada)
    await ask(server, ada, others)
    statements.clear()
    await ask(server, ada, others)
    few = len(statements)
    for _ in range(5):
        others.append(await server.account())
        await others[-1].send(ada)
        await others[0].send(ada)
    await ask(server, ada, others)
    statements.clear()
    await ask(server, ada, others)
    assert 0 < len(statements) == few <= 12
