"""A whole server as a process of its own, as an operator would start it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.http import get

READY = b"telesrv ready on "
JUST_ENDED = FileNotFoundError, ProcessLookupError
"""What reading of a process or a thread raises that ends meanwhile."""


def reserved_port() -> int:
    """Returns a loopback port that is kept for whoever is told of it, as long as this process lives.

    It stays bound: the kernel gives it to no client's end of a link and to nobody who asks for any port. It
    may be listened on all the same, as nobody listens on it here and servers say SO_REUSEADDR.
    """
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    port = int(reservation.getsockname()[1])
    reservation.detach()  # ends with the process
    return port


class RunningServer:
    """`telesrv` under its own data directory, with its own PostgreSQL and Valkey."""

    def __init__(
        self,
        data_dir: Path,
        *,
        host: str = "127.0.0.1",
        command: Sequence[str] = (),
        **settings: str,
    ) -> None:
        """Nothing is started yet; *command* becomes the server in the end, such as `ip netns exec NAME`."""
        self.data_dir = data_dir
        self.host = host
        self._command = command
        self.port = reserved_port()
        self.metrics_port = reserved_port()
        self.log_file = data_dir / "server.log"
        self.process: asyncio.subprocess.Process | None = None
        self._settings = settings

    @property
    def environment(self) -> dict[str, str]:
        """The environment the server and the admin CLI run with."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("TELESRV_")},
            "TELESRV_DATA_DIR": str(self.data_dir),
            "TELESRV_LISTEN": f"{self.host}:{self.port}",
            "TELESRV_METRICS_LISTEN": f"127.0.0.1:{self.metrics_port}",
            "TELESRV_PARTITIONS": "4",
            "TELESRV_DEV_AUTH_CODE": "12345",
            "TELESRV_MESSAGE_RATE_LIMIT": "0",
            **self._settings,
        }

    @property
    def public_key(self) -> Path:
        """The server's public RSA key."""
        return self.data_dir / "server_rsa.pub.pem"

    async def start(self) -> None:
        """Starts the server and waits for its ready line.

        Raises:
            AssertionError: it ended instead; the message has its log.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(*self._command, sys.executable, "-m", "telesrv"),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if line.startswith(READY):
                return
        await self.process.wait()
        raise AssertionError(f"the server did not start:\n{self.log_file.read_text()[-4000:]}")

    async def stop(self) -> int:
        """Stops the server by SIGTERM; returns its exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()

    async def kill(self) -> None:
        """Kills the server process as a crash would."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def signal_all(self, signum: signal.Signals) -> int:
        """Sends a signal to the server's whole process group, as a terminal does; returns its exit code."""
        assert self.process is not None
        os.killpg(self.process.pid, signum)
        return await self.process.wait()

    async def is_ready(self) -> bool:
        """Tells whether the server says that it is."""
        try:
            return (await get(self.metrics_port, "/readyz"))[0] == 200
        except OSError:
            return False

    def worker_pids(self) -> list[int]:
        """Returns the process ids of the workers that live now."""
        assert self.process is not None
        found = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(*JUST_ENDED):
                for pid in (task / "children").read_text().split():
                    with contextlib.suppress(*JUST_ENDED):
                        if b"telesrv.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                            found.append(int(pid))
        return sorted(found)

    def log_text(self) -> str:
        """Returns what the server has logged."""
        return self.log_file.read_text()
