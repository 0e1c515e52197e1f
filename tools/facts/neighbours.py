"""Layers that no package has, as the few constructors that differ from a layer that one has.

Every definition here is proved by its own id, which is its CRC32.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Neighbour:
    """Layer `layer` is layer `base` with `definitions` (by name) in place of, or beside, its own, less `removed`."""

    layer: int
    base: int
    definitions: str
    removed: frozenset[str] = frozenset()


NEIGHBOURS: tuple[Neighbour, ...] = ()
