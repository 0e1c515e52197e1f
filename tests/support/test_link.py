"""The link forwards, breaks, stalls and mends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.link import Link


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1000):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest_asyncio.fixture
async def link() -> AsyncIterator[Link]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with Link("127.0.0.1", server.sockets[0].getsockname()[1]) as link:
        yield link
    server.close()
    await server.wait_closed()


async def test_bytes_pass_both_ways_and_the_end_too(link: Link) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.write_eof()
    assert await reader.read() == b""
    assert (link.accepted, link.bytes_up, link.bytes_down) == (1, 5, 5)
    writer.close()


async def test_a_cut_link_resets_what_stands_and_what_comes(link: Link) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    await link.wait_connected(1)
    link.cut()
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    with pytest.raises(ConnectionResetError):
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        try:
            await reader.readexactly(1)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError from error
        finally:
            writer.close()
    link.mend()
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"again")
    assert await reader.readexactly(5) == b"again"
    writer.close()


async def test_a_frozen_link_keeps_the_bytes_back(link: Link) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    await link.wait_connected(1)
    link.freeze()
    writer.write(b"later")
    reading = asyncio.create_task(reader.readexactly(5))
    second_reader, second_writer = await asyncio.open_connection("127.0.0.1", link.port)
    await link.wait_connected(2)
    assert not reading.done()
    link.mend()
    assert await reading == b"later"
    for one in (writer, second_writer):
        one.close()
    assert await second_reader.read() == b""
