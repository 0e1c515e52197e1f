"""The compatibility table: how far each method of the newest layer is served, made from the registry.

``python -m telesrv.rpc.compat`` writes ``docs/compatibility.md``; a test compares the file with what this
module makes. What clients really call is counted by ``store.compat``.
"""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from telesrv import tl
from telesrv.rpc.registry import Handler, Status, load
from telesrv.tl.schema import FUNCTION, schema

PATH: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"

_WRAPPERS: Final = (
    "initConnection",
    "invokeAfterMsg",
    "invokeAfterMsgs",
    "invokeWithApnsSecret",
    "invokeWithGooglePlayIntegrity",
    "invokeWithLayer",
    "invokeWithMessagesRange",
    "invokeWithReCaptcha",
    "invokeWithoutUpdates",
)
"""Methods that the dispatcher takes off a call itself."""

_HEAD: Final = """\
# Compatibility

How far telesrv serves each method of layer {layer}. Written by `python -m telesrv.rpc.compat` from the
handlers themselves: do not edit.

- **done**: works as its public page says, within what the server has (private chats of text).
- **stub**: an honest empty or fixed answer; the feature is not there, and clients can live with that.
- **todo**: answered with `400 METHOD_NOT_SUPPORTED`, which clients take as "not available".

Calls of *stub* and *todo* methods are counted by method, layer and client, so that an operator sees what is
missed.
"""


def statuses() -> dict[str, tuple[Status, str]]:
    """Returns the status of every method of the newest layer, and the first sentence on it when served."""
    served = {handler.name: handler for handler in load().values()}
    return {name: _status(name, served) for name in sorted(_methods())}


def render() -> str:
    """Returns the text of ``docs/compatibility.md``."""
    rows: dict[str, list[str]] = defaultdict(list)
    counts: dict[str, Counter[Status]] = defaultdict(Counter)
    for name, (status, note) in statuses().items():
        namespace = name.partition(".")[0] if "." in name else "(none)"
        counts[namespace][status] += 1
        rows[namespace].append(f"| `{name}` | {status} | {note} |")
    lines = [_HEAD.format(layer=tl.LAYER), "| namespace | done | stub | todo |", "|---|---|---|---|"]
    for namespace in sorted(counts):
        count = counts[namespace]
        lines.append(f"| {namespace} | {_cells(count)} |")
    lines.append(f"| all | {_cells(sum(counts.values(), Counter()))} |")
    for namespace in sorted(rows):
        lines += [
            "",
            f"## {namespace}",
            "",
            "| method | status | answer |",
            "|---|---|---|",
            *rows[namespace],
        ]
    return "\n".join(lines) + "\n"


def write() -> None:
    """Writes the table into the tree."""
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(render(), encoding="utf-8")


def _methods() -> list[str]:
    return [
        name
        for (kind, name), variants in schema().by_name.items()
        if kind == FUNCTION and any(variant.in_layer(tl.LAYER) for variant in variants)
    ]


def _status(name: str, served: Mapping[str, Handler]) -> tuple[Status, str]:
    if name in _WRAPPERS:
        return Status.DONE, ""
    handler = served.get(name)
    if handler is None:
        return Status.TODO, ""
    return handler.status, _sentence(inspect.getdoc(handler.function) or "")


def _sentence(doc: str) -> str:
    """Returns the first sentence of a docstring on one line."""
    first, stop, _ = " ".join(doc.split("\n\n", maxsplit=1)[0].split()).partition(". ")
    return (first + "." if stop else first).replace("|", "\\|")


def _cells(count: Counter[Status]) -> str:
    return " | ".join(str(count[status]) for status in Status)


if __name__ == "__main__":
    write()
