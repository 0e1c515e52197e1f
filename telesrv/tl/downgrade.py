"""From the newest classes to what an older layer can say: explicit rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RULES: dict[str, Any] = {}
OBJECTS: dict[str, Any] = {}
VECTOR_RESULTS: dict[str, str] = {}


def conversion(layer: int, new: Any, old: Any) -> Callable[[Any], Any] | None:
    return None


def filled(type_: str) -> Callable[[Any], Any]:
    return lambda x: x
