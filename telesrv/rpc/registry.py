"""Which methods are served, and by which function.

A handler registers itself with ``@handler(functions.messages.SendMessage)``; every module of
``telesrv.rpc.handlers`` is imported once, by ``load``. What is not registered is *todo*: known by name from
the schema, refused, and counted.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from telesrv.rpc.context import Context
from telesrv.tl import TLFunction

FunctionT = TypeVar("FunctionT", bound=Callable[[Context, Any], Awaitable[object]])


class Status(StrEnum):
    """How far a method is served."""

    DONE = "done"
    STUB = "stub"
    """An honest empty or fixed answer: the feature is not there, and the client can live with that."""
    TODO = "todo"


@dataclass(frozen=True, slots=True)
class Handler:
    """One served method."""

    name: str
    function: Callable[[Context, Any], Awaitable[object]]
    result: str
    """The TL type of the answer."""
    status: Status
    before_login: bool


HANDLERS: Final[dict[type, Handler]] = {}
"""By the canonical class of the method."""


def handler(
    method: type[TLFunction], *, before_login: bool = False, stub: bool = False
) -> Callable[[FunctionT], FunctionT]:
    """Registers the decorated coroutine function as the one that serves *method*.

    Args:
        method: a class of ``telesrv.tl.functions``.
        before_login: whether the method may be called by a key that no account is bound to.
        stub: whether the answer is fixed because the feature is not there.

    Raises:
        ValueError: the method has a handler already.
    """

    def register(function: FunctionT) -> FunctionT:
        if method in HANDLERS:
            raise ValueError(f"{method.__name__} has two handlers")
        HANDLERS[method] = Handler(
            name=method.CONSTRUCTOR_NAME,
            function=function,
            result=method.RESULT,
            status=Status.STUB if stub else Status.DONE,
            before_login=before_login,
        )
        return function

    return register


def load() -> dict[type, Handler]:
    """Returns the handlers after every module of the package has been imported."""
    package = importlib.import_module("telesrv.rpc.handlers")
    for module in pkgutil.iter_modules(package.__path__, "telesrv.rpc.handlers."):
        importlib.import_module(module.name)
    return HANDLERS
