"""The base of every generated class."""

from __future__ import annotations

from typing import ClassVar


class TLObject:
    """A value of one constructor, or a call of one method; its fields are the slots, in the schema's order.

    Equal when the class and every field are. Mutable, hence not hashable.
    """

    __slots__: tuple[str, ...] = ()
    CONSTRUCTOR_NAME: ClassVar[str] = ""

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Shows the fields that are set; optional ones that are not are left out."""
        values = ((name, getattr(self, name, None)) for name in self.__slots__)
        shown = ", ".join(
            f"{name}={value!r}" for name, value in values if value is not None and value is not False
        )
        module = self.__class__.__module__.removeprefix("telesrv.tl.").removesuffix("._root")
        return f"{module}.{type(self).__name__}({shown})"


class TLFunction(TLObject):
    """A call of one method; RESULT is the TL type of its answer in the newest layer."""

    __slots__: tuple[str, ...] = ()
    RESULT: ClassVar[str] = ""
