"""Bounds on what a peer's bytes may make us build."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Each bound is checked before anything of that size is built.

    vector_items: of one vector. No client sends more than a few thousand (contacts, acknowledgements);
        a vector is also never longer than the bytes that are left allow.
    string_bytes: of one string or bytes; the largest honest one is an upload part of 512 KiB.
    depth: nested objects; wrappers and rich text stay below twenty.
    inflated_bytes: of all gzip_packed of one read together; a gzip of 1 MiB can claim a thousand times that.
    """

    vector_items: int = 16_384
    string_bytes: int = 4 << 20
    depth: int = 64
    inflated_bytes: int = 8 << 20


DEFAULT_LIMITS = Limits()


class Budget:
    """What one read may still use: its limits, and the inflated bytes that are left of them."""

    __slots__ = ("inflated_bytes", "string_bytes", "vector_items")

    def __init__(self, limits: Limits) -> None:
        self.vector_items = limits.vector_items
        self.string_bytes = limits.string_bytes
        self.inflated_bytes = limits.inflated_bytes
