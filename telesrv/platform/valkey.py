"""The embedded Valkey: on a Unix socket, with a password, writing every change to its append-only file."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from urllib.parse import quote

from telesrv.platform.account import Account
from telesrv.platform.process import Child


class Valkey(Child):
    """A Valkey server that keeps its data in `directory` and listens on `socket`."""

    stop_signal = signal.SIGTERM

    def __init__(
        self,
        directory: Path,
        log_file: Path,
        account: Account,
        *,
        program: Path,
        socket: Path,
        password: str,
        settings: dict[str, str],
    ) -> None:
        super().__init__(directory, log_file, account)
        self.name = program.name
        self.program = program
        self.socket = socket
        self.password = password
        self.settings = settings

    def command(self) -> list[str]:
        return [str(self.program), "-"]

    def standard_input(self) -> bytes:
        settings = {
            "port": "0",
            "unixsocket": f'"{self.socket}"',
            "unixsocketperm": "700",
            "requirepass": self.password,
            "dir": f'"{self.directory}"',
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            **self.settings,
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items()).encode()

    def before_start(self) -> None:
        self.socket.unlink(missing_ok=True)

    def url(self) -> str:
        """A URL that redis-py connects by."""
        return f"unix://:{self.password}@{quote(str(self.socket))}?db=0"

    async def answers(self) -> bool:
        # By hand: a client that is cancelled in the midst of a question may lose its connection, open.
        try:
            reader, writer = await asyncio.open_unix_connection(self.socket)
        except OSError:
            return False
        try:
            writer.write(f"AUTH {self.password}\r\nPING\r\n".encode("ascii"))
            return await reader.readline() == b"+OK\r\n" and await reader.readline() == b"+PONG\r\n"
        except OSError:
            return False
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
