"""Python that readers and writers are compiled from, while it is being written."""

from __future__ import annotations

from typing import Any


class Source:
    """Lines of a function, and the names that they use."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.names = names
        self.counter = 0

    def put(self, *lines: str) -> None:
        """Adds lines."""
        self.lines.extend(lines)

    def local(self) -> str:
        """Returns the name of a variable that no line has yet."""
        self.counter += 1
        return f"v{self.counter}"

    def bind(self, prefix: str, value: Any) -> str:
        """Returns the name of a value, one that begins with *prefix*."""
        for name, bound in self.names.items():
            if name.startswith(prefix) and bound is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name
