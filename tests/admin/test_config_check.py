"""`check-config`: what it finds with good and with bad settings."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from telesrv.mtproto.rsa import generate_rsa_key, save_private_pem
from tests.admin.commands import Cli, Forker
from tests.support.running import reserved_port


@pytest.fixture
def cli(forker: Forker, tmp_path: Path) -> Cli:
    ports = {"TELESRV_LISTEN": f"127.0.0.1:{reserved_port()}", "TELESRV_METRICS_LISTEN": ""}
    return Cli(forker, tmp_path, TELESRV_CODE_WEBHOOK="https://sms.example.org/send", **ports)


async def findings(cli: Cli, **settings: str) -> tuple[int, dict[tuple[str, str], str]]:
    """The exit code, and the texts by what was looked at and its state."""
    answer = await cli("check-config", "--json", **settings)
    assert answer.err == ""
    found: list[dict[str, Any]] = answer.json["findings"]
    assert answer.json["ok"] == (answer.code == 0)
    return answer.code, {(item["what"], item["state"]): item["text"] for item in found}


async def test_a_fresh_machine(cli: Cli, tmp_path: Path) -> None:
    code, found = await findings(cli)
    assert code == 0
    assert {state for _, state in found} == {"ok", "note"}
    assert "starts with the server" in found["PostgreSQL", "ok"]
    assert list(tmp_path.iterdir()) == []
    assert "A server can start with this." in (await cli("check-config")).out


async def test_servers_of_ones_own(cli: Cli, postgres_dsn: str, redis_url: str) -> None:
    code, found = await findings(cli, TELESRV_POSTGRES_DSN=postgres_dsn, TELESRV_REDIS_URL=redis_url)
    assert code == 0
    assert "with tables" in found["PostgreSQL", "ok"]
    assert "appendonly is off" in found["Redis", "note"]


async def test_partitions_that_the_database_does_not_have(cli: Cli, postgres_dsn: str) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    made = await connection.fetchval("SELECT value FROM schema_settings WHERE name = 'partitions'")
    await connection.close()
    code, found = await findings(cli, TELESRV_POSTGRES_DSN=postgres_dsn, TELESRV_PARTITIONS=made)
    assert (code, ("partitions", "warning") in found) == (0, False)
    code, found = await findings(cli, TELESRV_POSTGRES_DSN=postgres_dsn, TELESRV_PARTITIONS="37")
    assert code == 0
    assert found["partitions", "warning"] == (
        f"TELESRV_PARTITIONS=37 does nothing: the tables were made with {made}"
    )


async def test_an_empty_database_and_few_connections(cli: Cli, empty_postgres_dsn: str) -> None:
    code, found = await findings(
        cli,
        TELESRV_POSTGRES_DSN=empty_postgres_dsn,
        TELESRV_POSTGRES_MAX_CONNS="9000",
        TELESRV_WORKERS="1",
    )
    assert code == 0
    assert "made at the first start" in found["PostgreSQL", "warning"]
    assert "9000" in found["PostgreSQL", "warning"]


@pytest.mark.parametrize(
    ("settings", "what", "text"),
    [
        ({"TELESRV_POSTGRES_DSN": "postgresql://a:hidden@127.0.0.1:1/b"}, "PostgreSQL", "POSTGRES_DSN"),
        ({"TELESRV_REDIS_URL": "redis://:hidden@127.0.0.1:1"}, "Redis", "cannot be reached"),
        ({"TELESRV_OUTBOX_BATCH": "0"}, "settings", "TELESRV_OUTBOX_BATCH=0"),
        ({"TELESRV_LISTEN": "192.0.2.1:2398"}, "port for clients", "192.0.2.1:2398"),
        ({"TELESRV_RSA_KEY": "/dev/null"}, "RSA key", "/dev/null"),
        (
            {"TELESRV_LISTEN": "127.0.0.1:2500", "TELESRV_METRICS_LISTEN": "127.0.0.1:2500"},
            "settings",
            "TELESRV_METRICS_LISTEN=127.0.0.1:2500: clients connect there",
        ),
        ({"TELESRV_DATA_DIR": "/dev/null"}, "data directory", "not a directory"),
        ({"TELESRV_DATA_DIR": "/dev/null/data"}, "data directory", "cannot be made"),
    ],
)
async def test_problems(cli: Cli, settings: dict[str, str], what: str, text: str) -> None:
    code, found = await findings(cli, **settings)
    assert code == 1
    assert text in found[what, "problem"]
    assert not any("hidden" in value for value in found.values())


async def test_a_port_in_use(cli: Cli) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, found = await findings(cli, TELESRV_METRICS_LISTEN=f"127.0.0.1:{port}")
    assert (code, ("port for metrics", "problem") in found) == (1, True)


async def test_what_is_unwise(cli: Cli, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    save_private_pem(generate_rsa_key(), key)
    os.chmod(key, 0o644)
    (tmp_path / ".env").write_text("TELESRV_WORKRES=4\nTELESRV_LOAD_USERS=5\nOTHER=1\n")
    code, found = await findings(
        cli,
        TELESRV_RSA_KEY=str(key),
        TELESRV_LISTEN=f"0.0.0.0:{reserved_port()}",
        TELESRV_DEV_AUTH_CODE="12345",
    )
    assert code == 0
    assert "TELESRV_ADVERTISE_IP" in found["address", "warning"]
    assert "TELESRV_DEV_AUTH_CODE" in found["login codes", "warning"]
    assert "chmod 600" in found["RSA key", "warning"]
    assert found["settings", "warning"] == "TELESRV_WORKRES is no setting and does nothing"
