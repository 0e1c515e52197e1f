"""Logging: structlog to standard error, one line an event, without secrets.

Standard output belongs to the lines that tools wait for. What libraries log by the standard library comes out
in the same form, from warnings up.
"""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(*, json: bool | None = None, level: int = logging.INFO, **fields: object) -> None:
    """Sets the process's log format: for people on a terminal, JSON elsewhere unless *json* says
    otherwise.

    Args:
        json: one JSON object a line, or a line for people.
        level: the least that is logged.
        fields: what every line of this process carries, as ``worker=2``.
    """
    if json is None:
        json = not sys.stderr.isatty()

    def add_fields(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        for name, value in fields.items():
            event.setdefault(name, value)
        return event

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_fields,
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
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))
