"""From an older layer's fields to the newest class: defaults and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OBJECTS: dict[str, Any] = {}


def default(type_: str) -> Callable[[], Any]:
    return {"int": int, "long": int, "string": str, "bytes": bytes, "double": float, "Bool": bool}.get(
        type_, lambda: None
    )


def conversion(variant: Any, old: Any, new: Any) -> Callable[[Any], Any] | None:
    return None
