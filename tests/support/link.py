"""A TCP link that a test can cut, silence and mend: a proxy between a client and the server.

    async with Link("127.0.0.1", server_port) as link:
        ...                 # the client connects to link.port
        link.cut()          # every connection breaks off; new ones are refused until
        link.mend()

`cut` is a broken cable as both ends see it when told (a reset); `freeze` is one as they see it when not told:
bytes stop, connections stand.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType


class Link:
    """Forwards bytes both ways until told otherwise.

    Concurrency: one event loop. Lifecycle: an async context manager; leaving it breaks every connection.
    """

    def __init__(self, host: str, port: int, *, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        """Nothing is opened yet.

        `host` may be the path of a Unix socket; `port` says nothing then.

        `listen` with another loopback address and the server's own port makes a client that is told the
        server's port come back to the link, when the server advertises that address.
        """
        self.host, self.port = listen
        self.accepted = 0
        """Connections made so far, refused ones not counted."""
        self.bytes_up = 0
        self.bytes_down = 0
        self._target = host, port
        self._server: asyncio.Server | None = None
        self._is_cut = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._changed = asyncio.Condition()
        self._open: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, ...]] = {}

    async def __aenter__(self) -> Link:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def connections(self) -> int:
        """Connections that stand now."""
        return len(self._open)

    def cut(self) -> None:
        """Reset every connection, and each new one, until `mend`."""
        self._is_cut = True
        for task, writers in list(self._open.items()):
            for writer in writers:
                _reset(writer)
            task.cancel()

    def freeze(self) -> None:
        """Let no byte pass, until `mend`; connections stand and may be made."""
        self._flowing.clear()

    def mend(self) -> None:
        """Let new connections through and bytes flow."""
        self._is_cut = False
        self._flowing.set()

    async def wait_connected(self, accepted: int) -> None:
        """Return once `accepted` connections in all have been made."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.accepted >= accepted)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._is_cut:
            _reset(writer)
            return
        self._open[task] = (writer,)
        try:
            far_reader, far_writer = await self._connect()
        except OSError:
            _reset(writer)
            del self._open[task]
            return
        self._open[task] = writer, far_writer
        async with self._changed:
            self.accepted += 1
            self._changed.notify_all()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer, up=True))
                group.create_task(self._pump(far_reader, writer, up=False))
        except* OSError:
            _reset(writer)
            _reset(far_writer)
        except* asyncio.CancelledError:
            # Only `cut` cancels; streams would report a task that ends as cancelled.
            pass
        finally:
            del self._open[task]
            writer.close()
            far_writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self._target
        if host.startswith("/"):
            return await asyncio.open_unix_connection(host)
        return await asyncio.open_connection(host, port)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        while data := await reader.read(65536):
            await self._flowing.wait()
            if up:
                self.bytes_up += len(data)
            else:
                self.bytes_down += len(data)
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off with a TCP reset."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
