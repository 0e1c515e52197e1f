"""Commands that need no running server: help, keys, client files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from telesrv.mtproto.rsa import generate_rsa_key
from tests.admin.commands import Cli, Forker

HEAVY = (
    "asyncpg",
    "cryptography",
    "pydantic_settings",
    "redis",
    "rich",
    "structlog",
    "telesrv.store",
    "telesrv.tl",
)


@pytest.fixture
def cli(forker: Forker, tmp_path: Path) -> Cli:
    return Cli(forker, tmp_path)


@pytest.fixture
def key(tmp_path: Path) -> bytes:
    """A public key where the server would have put it."""
    pem = generate_rsa_key().public_pem()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/server_rsa.pub.pem").write_bytes(pem)
    return pem


COMMANDS = [
    [],
    ["compat"],
    ["check-config"],
    ["workers"],
    *([name] for name in ("client", "keys", "outbox", "pts", "sessions", "users")),
    ["client", "tdesktop"],
    ["keys", "show"],
    *(["outbox", name] for name in ("stats", "failed", "retry")),
    *(["pts", name] for name in ("check", "repair")),
    *(["sessions", name] for name in ("list", "kill")),
    *(["users", name] for name in ("list", "show")),
]


def test_help_of_every_command_loads_nothing_heavy() -> None:
    script = f"""
import contextlib, io, sys
from telesrv.admin.cli import app
for command in {COMMANDS!r}:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            app([*command, "--help"])
        except SystemExit as end:
            assert end.code == 0, (command, end.code)
    assert "Usage:" in out.getvalue(), command
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_help_teaches_by_example() -> None:
    command = [sys.executable, "-c", "from telesrv.admin.cli import main; main()", "--help"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "  telesrv-admin check-config  " in out
    assert "Exit codes: 0 done; 1" in out


async def test_keys_show(cli: Cli, key: bytes) -> None:
    answer = await cli("keys", "show", "--json")
    assert answer.json["pem"].encode() == key
    assert answer.json["fingerprint"] in (await cli("keys", "show")).out


async def test_keys_show_before_the_first_start(cli: Cli) -> None:
    answer = await cli("keys", "show")
    assert (answer.code, answer.out) == (2, "")
    assert "start the server once" in answer.err


async def test_client_tdesktop(cli: Cli, key: bytes, tmp_path: Path) -> None:
    answer = await cli("client", "tdesktop", "anna")
    assert (
        answer.out
        == f"Written for the server at 127.0.0.1:2398. Now: telegram-desktop -workdir {tmp_path / 'anna'}\n"
    )
    again = await cli("client", "tdesktop", "anna")
    assert again.code == 2
    assert "--force" in again.err
    assert (await cli("client", "tdesktop", "anna", "--force", "--host", "localhost")).code == 0


@pytest.mark.parametrize("host", ["chat.example.org", "192.0.2", "192.0.2.1:443", ""])
async def test_client_tdesktop_wants_an_address(cli: Cli, key: bytes, tmp_path: Path, host: str) -> None:
    settings = {} if host else {"TELESRV_LISTEN": "chat.example.org:2398"}
    answer = await cli("client", "tdesktop", "anna", *(["--host", host] if host else []), **settings)
    assert (answer.code, answer.out) == (2, "")
    assert "is not an IP address" in answer.err
    assert not (tmp_path / "anna").exists()


async def test_client_tdesktop_where_nothing_can_be_written(cli: Cli, key: bytes) -> None:
    answer = await cli("client", "tdesktop", "/dev/null/anna")
    assert answer.code == 2
    assert "cannot be written" in answer.err
