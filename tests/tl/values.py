"""Makes values of any TL type at will, from a source of random choices."""

from __future__ import annotations

from random import Random
from typing import Any

from telesrv.tl.defaults import default
from telesrv.tl.reader import load_class
from telesrv.tl.schema import LAYER, Variant, schema, vector_item

DEPTH = 3


def build(variant: Variant, random: Random, layer: int = LAYER, depth: int = 0, fill: float = 0.5) -> Any:
    """Returns an instance of a variant's class; each flag is set with probability `fill`.

    The fields are those of the newest class; objects in them are of constructors that `layer` has.
    """
    values = {}
    present: dict[tuple[str, int], bool] = {}  # fields under one flag come together
    for field in schema().canonical(variant).attributes:
        flag = field.flags, field.bit
        if field.optional and not present.setdefault(flag, random.random() < fill and depth <= DEPTH):
            continue
        values[field.attribute] = value_of(field.type, random, layer, depth + 1, fill)
    return load_class(variant)(**values)


def value_of(type_: str, random: Random, layer: int = LAYER, depth: int = 0, fill: float = 0.5) -> Any:
    """Returns a value of a TL type."""
    if item := vector_item(type_):
        count = 0 if depth > DEPTH else random.randrange(3)
        return [value_of(item[0], random, layer, depth + 1, fill) for _ in range(count)]
    match type_:
        case "int":
            return random.randint(-(2**31), 2**31 - 1)
        case "long":
            return random.randint(-(2**63), 2**63 - 1)
        case "double":
            return random.choice([0.0, 1.5, -2.25, 1e300])
        case "string":
            return random.choice(
                ["", "a", "héllo", "\U0001f600" * 3, "x" * random.choice((252, 253, 254, 255, 300))]
            )
        case "bytes":
            return random.randbytes(random.choice((0, 1, 2, 3, 4, 253, 254, 255, 256)))
        case "int128":
            return random.randbytes(16)
        case "int256":
            return random.randbytes(32)
        case "Bool":
            return random.random() < 0.5
        case "true":
            return True
        case "!X" | "X" | "Object":
            return load_class(schema().by_name["f", "help.getConfig"][-1])()
    choices = [v for v in schema().types.get(type_, ()) if v.in_layer(layer) or v.first == 0]
    if not choices:
        named = schema().by_name.get(("mt", type_)) or schema().by_name.get(("t", type_))
        return build(named[-1], random, layer, depth, fill) if named else default(type_)()
    if depth > DEPTH:
        return default(type_, layer)()
    return build(random.choice(choices), random, layer, depth, fill)
