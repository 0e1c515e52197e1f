"""One TL definition, read from any of the forms that packages use, with its checked id."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TYPE, FUNCTION = "t", "f"

# Ids that the protocol fixed by hand: these definitions do not hash to their id.
NOT_THEIR_CRC32 = frozenset(
    {
        0x37982646,  # ipPortSecret
        0x4679B65F,  # accessPointRule
        0x5A592A6C,  # help.configSimple
        0x27D69997,  # inputPeerPhotoFileLocationLegacy
        0x0DBAEAE9,  # inputStickerSetThumbLegacy
    }
)

_LINE = re.compile(r"^(?P<name>[\w.]+)#(?P<id>[0-9a-f]{1,8})(?P<fields>[^=]*)=\s*(?P<result>[^;]+);")


@dataclass(frozen=True)
class Definition:
    """One constructor or method exactly as one layer defines it; `fields` is a TL field list without
    braces."""

    kind: str
    name: str
    id: int
    fields: str
    result: str

    def crc32(self) -> int:
        """The id that the definition hashes to: its text without the `true` flags, angle brackets and
        braces."""
        words = [self.name]
        generic = "{X:Type}" if "!X" in self.fields else ""
        if generic:
            words.append("X:Type")
        for field in self.fields.split():
            if field.endswith("?true"):
                continue
            name, _, type_ = field.partition(":")
            type_ = re.sub(r"^(flags\d?\.\d+\?)?bytes$", r"\1string", type_)
            words.append(f"{name}:{type_}".replace("<", " ").replace(">", ""))
        text = " ".join(words) + " = " + self.result.replace("<", " ").replace(">", "")
        return zlib.crc32(text.encode())


def parse_tl(text: str) -> Iterator[Definition]:
    """Yields every definition of a TL file; comments, and what TL files leave to hand-written code, are
    skipped."""
    kind = TYPE
    for line in map(str.strip, text.splitlines()):
        if line == "---functions---":
            kind = FUNCTION
        elif line == "---types---":
            kind = TYPE
        elif match := _LINE.match(line):
            fields = " ".join(f for f in match["fields"].split() if not f.startswith("{"))
            if "[" in fields:
                continue
            yield Definition(kind, match["name"], int(match["id"], 16), fields, match["result"].strip())


def parse_entries(entries: list[dict[str, Any]]) -> Iterator[Definition]:
    """Yields every definition of a JSON list of entries (kind, name, id, type, arguments)."""
    for entry in entries:
        name = entry["name"]
        if name.startswith("mtcute.") or name.endswith("Legacy"):
            continue
        kind = TYPE if entry["kind"] == "class" else FUNCTION
        fields = " ".join(_field(argument) for argument in entry["arguments"])
        yield Definition(kind, name, entry["id"] & 0xFFFFFFFF, fields, _type(entry))


def _field(argument: dict[str, Any]) -> str:
    predicate = argument.get("typeModifiers", {}).get("predicate")
    prefix = f"{predicate}?" if predicate else ""
    return f"{argument['name']}:{prefix}{_type(argument)}"


def _type(holder: dict[str, Any]) -> str:
    modifiers = holder.get("typeModifiers", {})
    type_ = "long" if holder["type"] == "int53" else str(holder["type"])
    if modifiers.get("isBareType"):
        type_ = "%" + type_
    if modifiers.get("isVector"):
        return f"Vector<{type_}>"
    if modifiers.get("isBareVector"):
        return f"vector<{type_}>"
    return type_
