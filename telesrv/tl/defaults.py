"""The value of a required field that nobody gave: empty, but of the right type.

Wanted when a field became required after a client's layer, or is required in that layer and gone (or
optional) since.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from telesrv.tl.schema import LAYER, SERVICE_TYPE, TYPE, Variant, class_place, schema, vector_item

_SCALARS: dict[str, Callable[[], Any]] = {
    "int": int,
    "long": int,
    "double": float,
    "string": str,
    "bytes": bytes,
    "Bool": bool,
    "true": bool,
    "int128": lambda: bytes(16),
    "int256": lambda: bytes(32),
}

# Where the emptiest constructor of a type would say something else than "nothing".
_CHOSEN = {
    "Peer": "peerUser",
    "InputPeer": "inputPeerSelf",
    "InputReplyTo": "inputReplyToMessage",
    "StarsAmount": "starsAmount",
    "InputStorePaymentPurpose": "inputStorePaymentStarsTopup",
}


@cache
def default(type_: str, layer: int = LAYER) -> Callable[[], Any]:
    """Returns a function that makes a new empty value of a TL type, of a constructor that `layer` has."""
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if vector_item(type_):
        return list
    variant = _emptiest(type_, layer, frozenset())
    if variant is None:
        return lambda: None
    return lambda: _make(variant, layer)


def _make(variant: Variant, layer: int) -> Any:
    module, name = class_place(variant.kind, variant.name)
    cls = getattr(import_module("telesrv.tl." + module), name)
    newest = schema().canonical(variant)
    return cls(**{f.attribute: default(f.type, layer)() for f in newest.attributes if not f.optional})


def _emptiest(type_: str, layer: int, above: frozenset[str]) -> Variant | None:
    """The constructor of a type with the fewest required fields, the chosen or an ...Empty one first."""
    best: tuple[tuple[bool, bool, int], Variant] | None = None
    for variant in schema().types.get(type_, ()):
        newest = schema().canonical(variant)
        if variant.kind not in (TYPE, SERVICE_TYPE) or not (variant.in_layer(layer) or variant.first == 0):
            continue
        required = [f.type for f in newest.attributes if not f.optional]
        boxed = [t for t in required if t in schema().types]
        if any(t in above or _emptiest(t, layer, above | {type_}) is None for t in boxed):
            continue
        order = (variant.name != _CHOSEN.get(type_), not variant.name.endswith("Empty"), len(required))
        if best is None or order < best[0]:
            best = order, variant
    return best[1] if best else None
