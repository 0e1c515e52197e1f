"""One request of a connection, as monitoring systems make it."""

from __future__ import annotations

import asyncio


async def send(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body of the answer to *request*.

    Raises:
        OSError: nobody listens there, or whoever did went away.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    if not answer:
        raise ConnectionResetError
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


async def get(port: int, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """Returns what is at *path*, as `send`."""
    return await send(port, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
