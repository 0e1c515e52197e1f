"""A device in a client environment of its own, driven over its standard input and output."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from pathlib import Path
from typing import Any

from telesrv.mtproto.rsa import load_public_pem

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).parent / "peers" / "pyrogram_peer.py"


class PeerError(Exception):
    """What the client raised."""


class ProcessPeer:
    """Forwards each method of a device to its process."""

    def __init__(self, environment: str, port: int, public_key: Path, framing: str = "abridged") -> None:
        self._python = ROOT / ".venv-clients" / environment / "bin" / "python"
        n, e = load_public_pem(public_key.read_bytes())
        self._arguments = [str(SCRIPT), str(port), str(n), str(e), framing]
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the process."""
        self._process = await asyncio.create_subprocess_exec(
            self._python,
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 << 20,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if not line.startswith(b"{"):
                continue
            answer = json.loads(line)
            future = self._waiting.pop(answer["id"])
            if "error" in answer:
                future.set_exception(PeerError(answer["error"]))
            else:
                future.set_result(answer["value"])
        for future in self._waiting.values():
            future.set_exception(PeerError("the client process ended"))

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            assert self._process is not None
            assert self._process.stdin is not None
            call_id = next(self._ids)
            future = self._waiting[call_id] = asyncio.get_running_loop().create_future()
            line = json.dumps({"id": call_id, "do": name, "args": args})
            self._process.stdin.write(line.encode() + b"\n")
            return await future

        return call

    async def stop(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        assert self._reading is not None
        await self._reading
