"""Logging: structlog to standard error, one line an event, without secrets.

Standard output belongs to the lines that tools wait for. What libraries log by the standard library comes out
in the same form, from warnings up, warnings without their tracebacks.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Final

import structlog

SELDOM_S: Final = 1.0
"""How often an event that clients cause in floods is told: a log stays readable, and no disk is filled."""


def configure_logging(*, json: bool | None = None, pid: int | None = None) -> None:
    """Sets the process's log format: lines for people on a terminal, one JSON object a line elsewhere, unless
    *json* says otherwise. With *pid* each line tells which of several processes wrote it.
    """
    if json is None:
        json = not sys.stderr.isatty()

    def add_pid(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["pid"] = pid
        return event

    shared: list[structlog.typing.Processor] = [
        *([] if pid is None else [add_pid]),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
        if json
        else [
            # plain: the other kinds of traceback print the values of variables, keys and messages among them
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_brief)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def _brief(record: logging.LogRecord) -> bool:
    """Puts the error of a library's warning in the place of its traceback.

    Who warns goes on, as the pool does that tries a server again which is away: there is nothing to look for.
    """
    if record.exc_info and record.levelno <= logging.WARNING:
        record.msg, record.args = f"{record.getMessage()} ({record.exc_info[1]!r})", ()
        record.exc_info = record.exc_text = None
    return True


class Seldom:
    """An event that comes once or in floods: its first line is written at once, the next ones once a second.

    Each line says by *count* how many it stands for, and otherwise speaks of the last of them; none is left
    untold, except by a process that ends within that second. Concurrency: one event loop.
    """

    def __init__(
        self, log: structlog.typing.FilteringBoundLogger, level: int, event: str, interval_s: float = SELDOM_S
    ) -> None:
        self._log = log
        self._level = level
        self._event = event
        self._interval_s = interval_s
        self._count = 0
        self._fields: dict[str, object] = {}
        self._pause: asyncio.TimerHandle | None = None

    def tell(self, **fields: object) -> None:
        """Notes that it happened."""
        self._count += 1
        self._fields = fields
        if self._pause is None:
            self._write()

    def _write(self) -> None:
        self._log.log(self._level, self._event, **self._fields, count=self._count)
        self._count = 0
        self._pause = asyncio.get_running_loop().call_later(self._interval_s, self._pause_over)

    def _pause_over(self) -> None:
        self._pause = None
        if self._count:
            self._write()
