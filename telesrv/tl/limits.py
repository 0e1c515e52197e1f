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
    """What one read may still use: its limits, and the inflated bytes that are left of them.

    The default limits are the class's own attributes: almost every read then makes an empty object.
    """

    vector_items = DEFAULT_LIMITS.vector_items
    string_bytes = DEFAULT_LIMITS.string_bytes
    inflated_bytes = DEFAULT_LIMITS.inflated_bytes

    @classmethod
    def of(cls, limits: Limits) -> Budget:
        """Returns a whole budget."""
        budget = cls()
        if limits is not DEFAULT_LIMITS:
            budget.vector_items = limits.vector_items
            budget.string_bytes = limits.string_bytes
            budget.inflated_bytes = limits.inflated_bytes
        return budget
