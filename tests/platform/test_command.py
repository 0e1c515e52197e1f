"""The command `telesrv`: what it says before a server starts, and what it refuses at once."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from telesrv.config import load_settings
from telesrv.supervisor import warnings
from tests.support.running import reserved_port


def run(directory: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The command, ended by itself."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TELESRV_")}
    return subprocess.run(
        [sys.executable, "-m", "telesrv", *arguments],
        cwd=directory,
        env={**clean, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_arguments_that_ask(tmp_path: Path) -> None:
    answer = run(tmp_path, "--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "telesrv-admin check-config" in answer.stdout
    assert run(tmp_path, "--version").stdout == f"telesrv {version('telesrv')}\n"
    assert list(tmp_path.iterdir()) == []


def test_other_arguments_start_nothing(tmp_path: Path) -> None:
    answer = run(tmp_path, "--listen", "0.0.0.0:2398")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "unrecognized arguments: --listen 0.0.0.0:2398" in answer.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["TELESRV_LISTEN", "TELESRV_METRICS_LISTEN"])
def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path, name: str) -> None:
    settings = {"TELESRV_LISTEN": f"127.0.0.1:{reserved_port()}", "TELESRV_METRICS_LISTEN": ""}
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        answer = run(tmp_path, **{**settings, name: address})
    assert (answer.returncode, answer.stderr) == (
        2,
        f"telesrv: {name}={address}: {os.strerror(errno.EADDRINUSE)}; "
        f"is a server running there already? Else set another {name}\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["TELESRV_LISTEN", "TELESRV_METRICS_LISTEN"])
def test_an_address_of_another_machine_is_refused(tmp_path: Path, name: str) -> None:
    settings = {"TELESRV_LISTEN": f"127.0.0.1:{reserved_port()}", "TELESRV_METRICS_LISTEN": ""}
    answer = run(tmp_path, **{**settings, name: "192.0.2.1:2398"})
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"telesrv: {name}=192.0.2.1:2398: ")
    assert answer.stderr.endswith("; write an address of this machine\n")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "it cannot be read or made"), (b"no key", "an RSA private key of 2048 bits")],
)
def test_a_key_that_is_none_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "key.pem"
    path.mkdir() if content is None else path.write_bytes(content)
    answer = run(
        tmp_path,
        TELESRV_LISTEN=f"127.0.0.1:{reserved_port()}",
        TELESRV_METRICS_LISTEN="",
        TELESRV_RSA_KEY=str(path),
    )
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"telesrv: TELESRV_RSA_KEY={path}: {problem}")


def test_what_may_not_be_meant_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert warnings(load_settings(workers=1)) == []
    (tmp_path / ".env").write_text("TELESRV_WORKRES=4\nTELESRV_LISTEN=:2398\nTELESRV_DEV_AUTH_CODE=12345\n")
    told = "\n".join(warnings(load_settings()))
    for name in ("TELESRV_WORKRES", "TELESRV_ADVERTISE_IP", "TELESRV_DEV_AUTH_CODE"):
        assert name in told
    assert "TELESRV_ADVERTISE_IP" not in "\n".join(warnings(load_settings(advertise_ip="192.0.2.1")))


@pytest.mark.parametrize("url", ["redis://:hidden@127.0.0.1:1", "redis://:hidden@127.0.0.1:x"])
def test_a_redis_that_cannot_be_used_is_told_of_with_the_cause(
    empty_postgres_dsn: str, tmp_path: Path, url: str
) -> None:
    answer = run(
        tmp_path,
        TELESRV_LISTEN=f"127.0.0.1:{reserved_port()}",
        TELESRV_METRICS_LISTEN="",
        TELESRV_PARTITIONS="1",
        TELESRV_POSTGRES_DSN=empty_postgres_dsn,
        TELESRV_REDIS_URL=url,
    )
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith("telesrv: Redis cannot be used (")
    assert "check TELESRV_REDIS_URL" in answer.stderr
    assert "hidden" not in answer.stderr
