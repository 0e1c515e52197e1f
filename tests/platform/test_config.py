"""Settings: the environment over `.env` over the defaults, and a plain word for each that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telesrv.config import ConfigError, Settings, load_settings, unknown_settings


def test_the_defaults_are_those_of_the_documentation() -> None:
    settings = load_settings(None)
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 2398)
    assert settings.metrics_listen is not None
    assert (settings.metrics_listen.host, settings.metrics_listen.port) == ("127.0.0.1", 2399)
    assert settings.data_dir == Path("data")
    assert (settings.postgres_max_conns, settings.postgres_min_conns) == (50, 16)
    assert (settings.outbox_batch, settings.outbox_workers, settings.partitions) == (100, 2, 16)
    assert (settings.message_rate_limit, settings.workers) == (30, os.cpu_count())
    assert settings.dev_auth_code is None and settings.postgres_dsn is None and settings.redis_url is None


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text("TELESRV_PARTITIONS=4\nTELESRV_OUTBOX_BATCH=7\nOTHER_PROGRAM=1\nTELESRV_OF_TOMORROW=1\n")
    monkeypatch.setenv("TELESRV_PARTITIONS", "8")
    settings = load_settings(file)
    assert (settings.partitions, settings.outbox_batch) == (8, 7)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2", 2.0), ("0.25", 0.25), ("250ms", 0.25), ("1m", 60.0), ("3 s", 3.0), ("1h", 3600.0)],
)
def test_durations_have_units(monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
    monkeypatch.setenv("TELESRV_OUTBOX_INTERVAL", text)
    assert load_settings(None).outbox_interval == seconds


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:443", "0.0.0.0", 443),
        (":2398", "0.0.0.0", 2398),
        ("[::1]:0", "::1", 0),
        ("chat.example:1", "chat.example", 1),
    ],
)
def test_addresses(monkeypatch: pytest.MonkeyPatch, text: str, host: str, port: int) -> None:
    monkeypatch.setenv("TELESRV_LISTEN", text)
    address = load_settings(None).listen
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "name",
    [
        "ADVERTISE_IP",
        "DEV_AUTH_CODE",
        "POSTGRES_DSN",
        "REDIS_URL",
        "METRICS_LISTEN",
        "RSA_KEY",
        "PROXY_SECRET",
    ],
)
def test_empty_means_unset(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"TELESRV_{name}", "")
    assert getattr(load_settings(None), name.lower()) is None


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("LISTEN", "2398", "host:port"),
        ("LISTEN", "host:99999", "host:port"),
        ("LISTEN", "::1:2398", "brackets"),
        ("ADVERTISE_IP", "chat.example", "not a name"),
        ("POSTGRES_MAX_CONNS", "many", "whole number"),
        ("POSTGRES_MAX_CONNS", "0", "at least 2"),
        ("PARTITIONS", "-1", "at least 0"),
        ("PARTITIONS", "5000", "at most 1024"),
        ("OUTBOX_INTERVAL", "soon", "500ms"),
        ("OUTBOX_INTERVAL", "0", "above 0"),
        ("WORKERS", "0", "at least 1"),
        ("MESSAGE_RATE_LIMIT", "-5", "0"),
        ("METRICS_LISTEN", "nowhere", "host:port"),
        ("METRICS_LISTEN", "nowhere", "or leave it empty"),
    ],
)
def test_a_bad_value_is_named_and_explained(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, advice: str
) -> None:
    monkeypatch.setenv(f"TELESRV_{name}", value)
    with pytest.raises(ConfigError) as caught:
        load_settings(None)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"TELESRV_{name}={value}: ")
    assert advice in line


SECRETS = {
    "POSTGRES_DSN": ("postgresql://u:hush@h/d", "mysql://u:hush@h/d"),
    "REDIS_URL": ("redis://:hush@h:1/0", "http://:hush@h:1/0"),
    "PROXY_SECRET": ("dd00112233445566778899aabbccddeeff", "hush"),
    "DEV_AUTH_CODE": ("12345", "hush"),
    "CODE_WEBHOOK": ("https://h/hush", "ftp://h/hush"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_never_shown(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    good, bad = SECRETS[name]
    monkeypatch.setenv(f"TELESRV_{name}", good)
    settings = load_settings(None)
    assert getattr(settings, name.lower()).get_secret_value() == good
    assert good not in repr(settings) and good not in str(settings)
    monkeypatch.setenv(f"TELESRV_{name}", bad)
    with pytest.raises(ConfigError) as caught:
        load_settings(None)
    assert "hush" not in str(caught.value)
    assert str(caught.value).startswith(f"TELESRV_{name}=(hidden): ")


def test_every_bad_value_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELESRV_PARTITIONS", "x")
    monkeypatch.setenv("TELESRV_OUTBOX_BATCH", "0")
    with pytest.raises(ConfigError) as caught:
        load_settings(None)
    assert len(str(caught.value).splitlines()) == 2


def test_the_least_connections_follow_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELESRV_POSTGRES_MAX_CONNS", "5")
    assert load_settings(None).postgres_min_conns == 5
    monkeypatch.setenv("TELESRV_POSTGRES_MIN_CONNS", "6")
    with pytest.raises(ConfigError, match="may not exceed"):
        load_settings(None)


@pytest.mark.parametrize(
    ("listen", "metrics"),
    [
        ("127.0.0.1:2500", "127.0.0.1:2500"),
        ("127.0.0.1:2500", "localhost:2500"),
        ("0.0.0.0:2500", "127.0.0.1:2500"),
        ("[::1]:2500", ":2500"),
    ],
)
def test_metrics_are_not_served_where_clients_connect(
    monkeypatch: pytest.MonkeyPatch, listen: str, metrics: str
) -> None:
    monkeypatch.setenv("TELESRV_LISTEN", listen)
    monkeypatch.setenv("TELESRV_METRICS_LISTEN", metrics)
    with pytest.raises(ConfigError) as caught:
        load_settings(None)
    assert str(caught.value).startswith(f"TELESRV_METRICS_LISTEN={metrics}: ")
    assert f"TELESRV_LISTEN={listen}" in str(caught.value)


@pytest.mark.parametrize(
    ("listen", "metrics"),
    [
        ("127.0.0.1:2500", "127.0.0.1:2501"),
        ("127.0.0.2:2500", "127.0.0.1:2500"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:2500", ""),
    ],
)
def test_metrics_are_served_elsewhere(monkeypatch: pytest.MonkeyPatch, listen: str, metrics: str) -> None:
    monkeypatch.setenv("TELESRV_LISTEN", listen)
    monkeypatch.setenv("TELESRV_METRICS_LISTEN", metrics)
    assert load_settings(None).metrics_listen == (metrics or None)


def test_names_that_are_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "TELESRV_WORKRES=4\nexport TELESRV_PORT = 1\nTELESRV_WORKERS=1\n# TELESRV_NO=1\nOTHER=1\n"
    )
    monkeypatch.setenv("TELESRV_LISTN", "x")
    assert unknown_settings(file) == ["TELESRV_LISTN", "TELESRV_PORT", "TELESRV_WORKRES"]
    assert unknown_settings(tmp_path / "none") == ["TELESRV_LISTN"]


def test_broken_lines_of_a_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "# a comment\n\nTELESRV_WORKERS=1\nTELESRV_WORKERS 2\nexport TELESRV_LISTEN='127.0.0.1:1\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    assert str(caught.value).startswith(f"{file}, line 4, 5: write NAME=value")
    file.write_text("# a comment\nexport TELESRV_WORKERS = '1'\n")
    assert load_settings(file).workers == 1


def test_every_setting_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
