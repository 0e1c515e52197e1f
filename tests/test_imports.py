"""Imports go one way: each folder may import those named for it, and nothing else of the project."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "telesrv"

MAY_IMPORT = {
    "config": set(),
    "clock": set(),
    "logs": set(),
    "metrics": set(),
    "health": {"platform"},
    "platform": set(),
    "tl": set(),
    "mtproto": {"tl"},
    "domain": set(),
    "store": {"domain"},
    "rpc": {"tl", "mtproto", "domain", "store"},
    "gateway": {"tl", "mtproto", "domain", "store", "rpc"},
    "outbox": {"domain", "store", "rpc", "gateway"},
    "admin": {"store", "domain", "mtproto", "platform"},
}
"""The order of the layers. The modules of `WIRING` may import all of it."""

LEAVES = {"config", "clock", "logs", "metrics"}
"""What every layer may import that is not pure: a pure one knows nothing of the program round it."""

PURE = {"tl", "mtproto", "domain"}

WIRING = {"app", "worker", "worker_process", "supervisor", "__main__", "__init__"}


def layer_of(path: Path) -> str:
    """The folder, or the module, directly under the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The layers that a module imports and the lines it does so in, function bodies included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "telesrv" else [module]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "telesrv" and len(parts) > 1:
                yield parts[1], node.lineno


def allowed(layer: str) -> set[str]:
    """What a layer may import, itself included."""
    return {layer} | MAY_IMPORT[layer] | (set() if layer in PURE else LEAVES)


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_every_folder_has_its_place() -> None:
    assert {layer_of(path) for path in MODULES} - WIRING <= set(MAY_IMPORT)


@pytest.mark.parametrize("layer", sorted(MAY_IMPORT))
def test_a_layer_imports_only_what_is_below_it(layer: str) -> None:
    upward = [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports telesrv.{name}"
        for path in MODULES
        if layer_of(path) == layer
        for name, line in imported(path)
        if name not in allowed(layer)
    ]
    assert upward == []


def test_the_domain_needs_the_standard_library_only() -> None:
    foreign = []
    for path in sorted((PACKAGE / "domain").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            known = {*sys.stdlib_module_names, "telesrv"}
            foreign += [name for name in names if name.split(".")[0] not in known]
    assert foreign == []


def test_conversions_to_tl_know_nothing_of_the_store() -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}"
        for path in sorted((PACKAGE / "rpc" / "convert").rglob("*.py"))
        for name, line in imported(path)
        if name == "store"
    ]
    assert found == []
