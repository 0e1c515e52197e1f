"""Merges the layers' definitions into variants with the layers they are valid in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from tools.facts.definition import NOT_THEIR_CRC32, Definition

# The core of TL, read and written by hand.
BY_HAND = frozenset({"boolFalse", "boolTrue", "true", "vector", "error", "null", "ipPort"})


@dataclass
class Variant:
    """One id of a name; valid from layer `first` to layer `last`, where 0 means up to the newest."""

    definition: Definition
    first: int
    last: int


def checked(layer: int, found: Iterable[Definition]) -> dict[int, Definition]:
    """Returns a layer's definitions by id, without those that TL's core or a package's own additions bring.

    Raises ValueError on a definition that neither hashes to its id nor is a known exception.
    """
    result = {}
    for definition in found:
        if definition.name in BY_HAND or definition.name.endswith("Prefix"):
            continue
        if definition.crc32() != definition.id and definition.id not in NOT_THEIR_CRC32:
            raise ValueError(f"layer {layer}: {definition} hashes to {definition.crc32():08x}")
        result[definition.id] = definition
    return result


def merge(layers: Mapping[int, Mapping[int, Definition]]) -> list[Variant]:
    """Returns every variant ever seen, by kind, name and first layer.

    A variant lasts until the next known layer that has another id for its name, or none. One that is missing
    in a layer and back with the same id later was only left out by a package. `true` flags do not change an
    id: the newest layer's are taken.
    """
    known = sorted(layers)
    seen: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    newest: dict[int, Definition] = {}
    for layer in known:
        for id_, definition in layers[layer].items():
            key = definition.kind, definition.name
            if layer in seen[key]:
                raise ValueError(f"{definition.name} has two ids in layer {layer}")
            seen[key][layer] = id_
            newest[id_] = definition
    variants = []
    for key in sorted(seen):
        ids = seen[key]
        for id_, run in groupby(sorted(ids), key=lambda layer: ids[layer]):
            span = list(run)
            following = [layer for layer in known if layer > span[-1]]
            variants.append(Variant(newest[id_], span[0], following[0] - 1 if following else 0))
    return variants
