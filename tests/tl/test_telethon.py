"""Telethon of the same layer reads what we write, and writes the same bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from telethon.extensions import BinaryReader
from telethon.tl import alltlobjects

from telesrv.tl import LAYER, read, write
from telesrv.tl.schema import Variant, schema, vector_item
from tests.tl.values import build

# Dates are datetimes there, and Telethon's own types are looser than the schema in places.
# It takes the status bytes of two service messages for text.
AS_TEXT = {"msgs_state_info", "msgs_all_info"}
OURS = {v.id: v for v in schema().by_id.values() if v.in_layer(LAYER) and v.name not in AS_TEXT}


def bounded(value: Any) -> Any:
    """Makes every integer one that is also a date, in place."""
    for name in getattr(value, "__slots__", ()):
        item = getattr(value, name)
        if isinstance(item, int) and not isinstance(item, bool):
            setattr(value, name, abs(item) % (1 << 31))
        elif isinstance(item, list):
            setattr(value, name, [abs(i) % (1 << 31) if isinstance(i, int) else bounded(i) for i in item])
        else:
            bounded(item)
    return value


def holds_any(variant: Variant) -> bool:
    return any(vector_item(f.type) is None and f.type in ("!X", "X", "Object") for f in variant.fields)


def test_layer_and_ids() -> None:
    assert alltlobjects.LAYER == LAYER
    theirs = set(alltlobjects.tlobjects)
    missing = {name for id_, name in ((i, v.name) for i, v in OURS.items()) if id_ not in theirs}
    assert len(OURS) - len(missing) > 2400


@pytest.mark.parametrize("fill", [0.0, 0.5, 1.0])
def test_same_bytes(fill: float) -> None:
    compared = 0
    for id_, variant in OURS.items():
        if id_ not in alltlobjects.tlobjects or holds_any(variant):
            continue
        value = bounded(build(variant, Random(f"{variant.name}{fill}"), fill=fill))
        data = write(value)
        reader = BinaryReader(data)
        theirs = reader.tgread_object()
        assert reader.tell_position() == len(data), variant
        assert bytes(theirs) == data, variant
        assert read(bytes(theirs)) == value, variant
        compared += 1
    assert compared > 2400
