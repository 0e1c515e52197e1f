"""Every setting of the server: one name, one meaning, read from the environment and from `.env`.

The environment wins over `.env`. A value that cannot be used ends in `ConfigError`, whose lines name the
variable, repeat the value unless it is secret, and say what to write instead.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from dotenv.parser import parse_stream
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX: Final = "TELESRV_"

MAX_PORT: Final = 65535

_ELSEWHERE: Final = ("LOAD_", "TEST_")
"""How the settings of other programs of this project go on."""


class ConfigError(Exception):
    """A setting that cannot be used; `str()` is the text for the operator, one line per setting."""


class Address(str):
    """A `host:port` that was checked; `[...]` brackets stand round an IPv6 host."""

    __slots__ = ("host", "port")
    host: str
    port: int

    def __new__(cls, value: str) -> Address:
        host, separator, port = value.rpartition(":")
        if not separator or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
            raise ValueError("write host:port, for example 127.0.0.1:2400")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError("write an IPv6 address in brackets, for example [::1]:2400")
        address = super().__new__(cls, value)
        address.host = host or "0.0.0.0"  # noqa: S104 - ":2398" asks for every interface
        address.port = int(port)
        return address

    def overlaps(self, other: Address) -> bool:
        """Tells whether one port cannot be listened on at both: a host stands on both sides, or all hosts
        do on one."""
        hosts = {self.reachable_host, other.reachable_host}
        everywhere = self.is_everywhere or other.is_everywhere
        return self.port == other.port and (len(hosts) == 1 or everywhere)

    @property
    def is_everywhere(self) -> bool:
        """Whether it stands for every interface of this machine."""
        return self.host in {"0.0.0.0", "::"}  # noqa: S104

    @property
    def reachable_host(self) -> str:
        """As of `reachable_host`."""
        return reachable_host(self.host)


def reachable_host(host: str) -> str:
    """Returns an address by which clients of this machine reach a server that listens on *host*: loopback
    where it listens on every interface."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104


def _address(value: object) -> Address:
    return value if isinstance(value, Address) else Address(str(value))


def _optional_address(value: object) -> Address | None:
    if value is None or value == "":
        return None
    try:
        return _address(value)
    except ValueError as error:
        raise ValueError(f"{error}, or leave it empty to serve none") from None


def _advertise_ip(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError("write an IPv4 or IPv6 address that clients can reach, not a name") from None


def _dev_auth_code(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not re.fullmatch(r"[0-9]{3,8}", value.get_secret_value()):
        raise ValueError("write 3 to 8 digits, for example 12345, or leave it out")
    return value


def _proxy_secret(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not re.fullmatch(r"(?:dd)?[0-9a-fA-F]{32}", value.get_secret_value()):
        raise ValueError("write 32 hexadecimal digits (16 bytes), with or without dd before them")
    return value


def _scheme(value: SecretStr | None, schemes: tuple[str, ...], example: str) -> SecretStr | None:
    if value is not None and urlsplit(value.get_secret_value()).scheme not in schemes:
        raise ValueError(f"write a URL such as {example}")
    return value


def _postgres_dsn(value: SecretStr | None) -> SecretStr | None:
    return _scheme(value, ("postgres", "postgresql"), "postgresql://user:password@host:5432/telesrv")


def _redis_url(value: SecretStr | None) -> SecretStr | None:
    return _scheme(value, ("redis", "rediss", "unix"), "redis://:password@host:6379/0")


def _code_webhook(value: SecretStr | None) -> SecretStr | None:
    return _scheme(value, ("http", "https"), "https://sms.example.org/send")


def _duration(value: object) -> object:
    """`0.5`, `500ms`, `2s`, `1m` as seconds."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|m|h)?\s*", value)
        if match is None:
            raise ValueError("write seconds, or a number with ms, s, m or h, for example 500ms")
        return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}[match[2]]
    return value


def _empty_is_unset(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


Seconds = Annotated[float, BeforeValidator(_duration)]
Unset = BeforeValidator(_empty_is_unset)


class Settings(BaseSettings):
    """The settings of one server, checked; build it with `load_settings()`.

    Durations are in seconds here; the environment may say `500ms` or `2m`. Secrets are `SecretStr` and never
    appear in a `repr` or a log line.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    listen: Annotated[Address, NoDecode, BeforeValidator(_address)] = Field(
        default=Address("127.0.0.1:2398"), description="where clients connect, host:port"
    )
    advertise_ip: Annotated[str | None, Unset, AfterValidator(_advertise_ip)] = Field(
        default=None, description="the address clients are told to connect to; the listening one when unset"
    )
    data_dir: Path = Field(default=Path("data"), description="where everything that lasts is kept")
    dev_auth_code: Annotated[SecretStr | None, Unset, AfterValidator(_dev_auth_code)] = Field(
        default=None, description="a log-in code that works for every account; never on a public server"
    )
    code_webhook: Annotated[SecretStr | None, Unset, AfterValidator(_code_webhook)] = Field(
        default=None, description="where log-in codes are posted, so that they can be sent by text message"
    )
    postgres_dsn: Annotated[SecretStr | None, Unset, AfterValidator(_postgres_dsn)] = Field(
        default=None, description="your own PostgreSQL; the embedded one when unset"
    )
    postgres_max_conns: int = Field(
        default=50, ge=2, le=10_000, description="connections to PostgreSQL, at most"
    )
    postgres_min_conns: int = Field(default=16, ge=1, le=10_000, description="connections opened at start")
    postgres_at_once: Annotated[int | None, Unset] = Field(
        default=None,
        ge=2,
        le=10_000,
        description="connections that work at once, unless some are stuck; unset: four for each core, shared "
        "by the workers, on the embedded PostgreSQL, and all of them on your own",
    )
    redis_url: Annotated[SecretStr | None, Unset, AfterValidator(_redis_url)] = Field(
        default=None, description="your own Redis or Valkey; the embedded one when unset"
    )
    partitions: int = Field(
        default=16,
        ge=0,
        le=1024,
        description="hash partitions of a large table, fixed at creation; 0 on Citus",
    )
    rsa_key: Annotated[Path | None, Unset] = Field(
        default=None, description="PEM file of the server's RSA key; made under the data directory when unset"
    )
    proxy_secret: Annotated[SecretStr | None, Unset, AfterValidator(_proxy_secret)] = Field(
        default=None, description="MTProto proxy secret; with it, clients may connect as to a proxy"
    )
    workers: int = Field(
        default_factory=lambda: min(os.cpu_count() or 1, 64),
        ge=1,
        le=64,
        description="processes serving clients; as many as there are cores when unset",
    )
    message_rate_limit: int = Field(
        default=30,
        ge=0,
        le=1_000_000,
        description="messages an account may send in a minute; 0: no limit",
    )
    metrics_listen: Annotated[Address | None, NoDecode, BeforeValidator(_optional_address)] = Field(
        default=Address("127.0.0.1:2399"),
        description="where metrics and health are served; empty: nowhere",
    )
    node_lease: Seconds = Field(
        default=15.0, ge=2, le=3600, description="how long a process cut off from PostgreSQL keeps its number"
    )
    outbox_batch: int = Field(
        default=100, ge=1, le=10_000, description="rows an outbox worker claims for each bucket"
    )
    outbox_interval: Seconds = Field(
        default=0.5, gt=0, le=3600, description="how often the outbox is looked at when nothing wakes it"
    )
    outbox_lease_timeout: Seconds = Field(
        default=30.0, ge=1, le=86_400, description="after how long a claim of a dead worker is taken over"
    )
    outbox_workers: int = Field(default=2, ge=1, le=64, description="outbox workers of one process")

    @property
    def rsa_key_path(self) -> Path:
        """Where the server's RSA key is, or is made at the first start."""
        return self.rsa_key or self.data_dir / "server_rsa.pem"

    @property
    def public_key_path(self) -> Path:
        """Where the server puts the public half of its key, for those who set clients up."""
        return self.data_dir / "server_rsa.pub.pem"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, dotenv_settings

    def model_post_init(self, context: Any, /) -> None:
        """Refuses combinations that no single value shows to be wrong."""
        if "postgres_min_conns" not in self.model_fields_set:
            self.__dict__["postgres_min_conns"] = min(self.postgres_min_conns, self.postgres_max_conns)
        if self.postgres_min_conns > self.postgres_max_conns:
            raise ConfigError(
                f"{PREFIX}POSTGRES_MIN_CONNS={self.postgres_min_conns}: it may not exceed "
                f"{PREFIX}POSTGRES_MAX_CONNS ({self.postgres_max_conns})"
            )
        metrics = self.metrics_listen
        if metrics is not None and metrics.port != 0 and metrics.overlaps(self.listen):
            raise ConfigError(
                f"{PREFIX}METRICS_LISTEN={metrics}: clients connect there ({PREFIX}LISTEN={self.listen}); "
                "write another port, or leave it empty to serve no metrics"
            )


_REASONS: Final = {
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "float_parsing": "write a number",
    "path_type": "write a path",
    "greater_than_equal": "write a number of at least {ge}",
    "less_than_equal": "write a number of at most {le}",
    "greater_than": "write a number above {gt}",
}


def _is_secret(field: str) -> bool:
    info = Settings.model_fields.get(field)
    return info is None or "SecretStr" in str(info.annotation)


def _line(error: Any) -> str:
    """One line on one setting: its variable, its value unless secret, what to write instead."""
    field = str(error["loc"][0]) if error["loc"] else ""
    context = error.get("ctx") or {}
    if error["type"] == "value_error":
        advice = str(context.get("error", error["msg"]))
    else:
        numbers = {name: f"{value:g}" for name, value in context.items() if isinstance(value, int | float)}
        advice = _REASONS.get(error["type"], error["msg"]).format(**numbers)
    given = error["input"]
    value = "(hidden)" if _is_secret(field) else f"{given:g}" if isinstance(given, float) else str(given)
    return f"{PREFIX}{field.upper()}={value}: {advice}"


def unknown_settings(env_file: Path | str = ".env") -> list[str]:
    """The names in the environment and in `env_file` that look like settings and are none: as a rule a
    misspelling."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    names = {name.upper() for name in os.environ}
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = Path(env_file).read_text(encoding="utf-8").splitlines()
        names |= {line.partition("=")[0].strip().removeprefix("export ").strip().upper() for line in lines}
    return sorted(
        name
        for name in names - known
        if name.startswith(PREFIX) and not name.removeprefix(PREFIX).startswith(_ELSEWHERE)
    )


def load_settings(env_file: Path | str | None = ".env", **overrides: Any) -> Settings:
    """The settings from `overrides`, the environment and `env_file`, in that order of precedence.

    Args:
        env_file: a file of `NAME=value` lines, read when it exists; None for no file.
        overrides: settings by field name, as a command line gives them.
    Raises:
        ConfigError: a value cannot be used; its text has a line for each.
    """
    try:
        if env_file is not None:
            _refuse_broken_lines(Path(env_file))
        return Settings(_env_file=env_file, **overrides)  # type: ignore[call-arg]
    except ValidationError as error:
        raise ConfigError("\n".join(_line(item) for item in error.errors())) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{env_file}: it is not UTF-8 text; write NAME=value lines in UTF-8") from None


def _refuse_broken_lines(env_file: Path) -> None:
    """Refuses what would be left out of the settings with no more than a warning."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError), env_file.open(encoding="utf-8") as lines:
        broken = [binding.original.line for binding in parse_stream(lines) if binding.error]
        if broken:
            numbers = ", ".join(map(str, broken))
            raise ConfigError(f"{env_file}, line {numbers}: write NAME=value, a # before a comment")
