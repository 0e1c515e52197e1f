"""Machines, as far as the network goes: namespaces with an address of their own, and stores they reach."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
from urllib.parse import parse_qs, unquote, urlsplit

from telesrv.platform import Endpoints


def why_not() -> str:
    """Returns why there can be no machines here; empty when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no ip command"
    try:
        with Machine(125):
            return ""
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made here: {error.stderr.decode().strip()}"


class Cable:
    """Joins a namespace to this one by a network of its own."""

    def __init__(self, namespace: str, number: int) -> None:
        tag = secrets.token_hex(3)
        self._namespace = namespace
        self._near, self._far = f"tn{tag}", f"tf{tag}"
        network = f"10.{200 + os.getpid() % 50}.{number}"
        self.near_address = f"{network}.1"
        self.far_address = f"{network}.2"

    def lay(self) -> None:
        """Makes both ends."""
        _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self._namespace)
        _ip("address", "add", f"{self.near_address}/30", "dev", self._near)
        _ip("-n", self._namespace, "address", "add", f"{self.far_address}/30", "dev", self._far)
        _ip("-n", self._namespace, "link", "set", self._far, "up")
        self.heal()

    def cut(self) -> None:
        """Loses whatever is sent through it from now on."""
        _ip("link", "set", self._near, "down")

    def heal(self) -> None:
        """Lets everything through."""
        _ip("link", "set", self._near, "up")

    def remove(self) -> None:
        """Takes both ends away, if they are there."""
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._near)


class Machine:
    """A network namespace, joined to this one by a cable for clients and one to the stores."""

    def __init__(self, number: int) -> None:
        self.name = f"telesrv-{secrets.token_hex(3)}"
        self.to_clients = Cable(self.name, 2 * number)
        self.to_stores = Cable(self.name, 2 * number + 1)
        self.address = self.to_clients.far_address

    def __enter__(self) -> Machine:
        try:
            _ip("netns", "add", self.name)
            _ip("-n", self.name, "link", "set", "lo", "up")
            self.to_clients.lay()
            self.to_stores.lay()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Takes the cables and the namespace away."""
        self.to_clients.remove()
        self.to_stores.remove()
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self.name)

    @property
    def command(self) -> list[str]:
        """What a command line begins with to run on this machine."""
        return ["ip", "netns", "exec", self.name]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Stores:
    """Makes stores that listen on sockets of this machine reachable from others, over TCP."""

    def __init__(self, endpoints: Endpoints, machine: Machine) -> None:
        dsn, url = urlsplit(endpoints.postgres_dsn), urlsplit(endpoints.redis_url)
        options = parse_qs(dsn.query)
        self._postgres = f"{options['host'][0]}/.s.PGSQL.{options.get('port', ['5432'])[0]}"
        self._redis = unquote(url.path)
        self._host = machine.to_stores.near_address
        self._dsn, self._url = dsn, url
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.Task[None]] = set()
        self.settings: dict[str, str] = {}
        """The settings with which a server there finds the stores."""

    async def __aenter__(self) -> Stores:
        postgres, redis = await self._listen(self._postgres), await self._listen(self._redis)
        login = self._dsn.netloc.rpartition("@")[0]
        self.settings = {
            "TELESRV_POSTGRES_DSN": f"postgresql://{login}@{self._host}:{postgres}{self._dsn.path}",
            "TELESRV_REDIS_URL": f"redis://:{self._url.password}@{self._host}:{redis}/0",
        }
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _listen(self, path: str) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._open.add(task)
            far_writer: asyncio.StreamWriter | None = None
            try:
                far_reader, far_writer = await asyncio.open_unix_connection(path)
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pump(reader, far_writer))
                    group.create_task(_pump(far_reader, writer))
            except* (OSError, asyncio.CancelledError):
                pass
            finally:
                self._open.discard(task)
                writer.transport.abort()
                if far_writer is not None:
                    far_writer.transport.abort()

        server = await asyncio.start_server(serve, self._host, 0)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
