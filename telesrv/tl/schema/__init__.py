"""The one table of every constructor that any known layer has, and what it says about each.

`facts.json` beside this file is written by `tools.facts`; one line is one variant (one id of one name) with
the layers it is valid in. It is loaded on first use and a variant's fields are parsed when they are asked
for.

*Spec: TL Language*
"""

from __future__ import annotations

import json
import keyword
import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

TYPE, FUNCTION, SERVICE_TYPE, SERVICE_FUNCTION = "t", "f", "mt", "mf"
LAYER = 229
MIN_LAYER = 152

_FIELD = re.compile(r"(?P<name>\w+):(?:(?P<flags>\w+)\.(?P<bit>\d+)\?)?(?P<type>\S+)")
_VECTOR = re.compile(r"(?P<bare>[Vv])ector<(?P<item>.+)>$")
# Widths of the bare types that have a fixed one.
FIXED = {"#": 4, "int": 4, "long": 8, "double": 8, "int128": 16, "int256": 32}
BARE = FIXED.keys() | {"string", "bytes"}


class Field(NamedTuple):
    """One field: `type` without its condition; `flags` and `bit` say when it is there, bit -1 = always."""

    name: str
    type: str
    flags: str
    bit: int

    @property
    def attribute(self) -> str:
        """The Python name: the TL name, with a trailing underscore when Python (or `self`) has it."""
        return self.name + "_" if keyword.iskeyword(self.name) or self.name == "self" else self.name

    @property
    def optional(self) -> bool:
        return self.bit >= 0


def vector_item(type_: str) -> tuple[str, bool] | None:
    """Returns the item type of a vector type and whether the vector itself is boxed; None for other types."""
    match = _VECTOR.match(type_)
    return (match["item"], match["bare"] == "V") if match else None


class Variant:
    """One id of one name, valid from layer `first` to layer `last` (0: up to the newest).

    `name` is the TL name; `result` the TL type it builds, or that its answer has.
    """

    def __init__(
        self, kind: str, name: str, id_: str, first: int, last: int, fields: str, result: str
    ) -> None:
        self.kind = kind
        self.name = name
        self.id = int(id_, 16)
        self.first = first
        self.last = last or 1 << 30
        self.field_text = fields
        self.result = result

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields in the order of the wire, `flags:#` among them."""
        return tuple(
            Field(m["name"], m["type"], m["flags"] or "", int(m["bit"] or -1))
            for m in map(_FIELD.fullmatch, self.field_text.split())
            if m
        )

    @property
    def attributes(self) -> tuple[Field, ...]:
        """The fields that are attributes of the class: all but the flag words."""
        return tuple(f for f in self.fields if f.type != "#")

    @property
    def is_function(self) -> bool:
        return self.kind in (FUNCTION, SERVICE_FUNCTION)

    def in_layer(self, layer: int) -> bool:
        return self.first <= layer <= self.last

    def __repr__(self) -> str:
        return f"{self.name}#{self.id:08x} {self.field_text} = {self.result} [{self.first}-{self.last}]"


class Schema:
    """Every variant, found by id, and by kind and name in order of layer."""

    def __init__(self, text: str) -> None:
        facts = json.loads(text)
        self.layers: list[int] = facts["layers"]
        self.by_id: dict[int, Variant] = {}
        self.by_name: dict[tuple[str, str], list[Variant]] = {}
        self.types: dict[str, list[Variant]] = {}
        for row in facts["variants"]:
            variant = Variant(*row)
            self.by_id[variant.id] = variant
            self.by_name.setdefault((variant.kind, variant.name), []).append(variant)
            if not variant.is_function:
                self.types.setdefault(variant.result, []).append(variant)

    def canonical(self, variant: Variant) -> Variant:
        """Returns the newest variant of the same name: the one that its class has the fields of."""
        return self.by_name[variant.kind, variant.name][-1]

    def at(self, kind: str, name: str, layer: int) -> Variant | None:
        """Returns the variant that `layer` has of a name; None when it has none. Service names are in every
        layer."""
        for variant in self.by_name.get((kind, name), ()):
            if variant.in_layer(layer) or variant.first == 0:
                return variant
        return None


def class_place(kind: str, name: str) -> tuple[str, str]:
    """Returns the module (below telesrv.tl) and the class name that a constructor is generated as."""
    if kind in (SERVICE_TYPE, SERVICE_FUNCTION):
        return "mt", "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    package = "functions" if kind == FUNCTION else "types"
    namespace, _, short = name.rpartition(".")
    return f"{package}.{namespace or '_root'}", short[:1].upper() + short[1:]


@lru_cache(maxsize=1)
def schema() -> Schema:
    """Returns the table, loading it on the first call."""
    return Schema((Path(__file__).parent / "facts.json").read_text(encoding="utf-8"))


def name_of(constructor_id: int) -> str | None:
    """Returns the TL name of a constructor or method of any layer by its id; None when it is unknown."""
    variant = schema().by_id.get(constructor_id & 0xFFFFFFFF)
    return variant.name if variant else None
