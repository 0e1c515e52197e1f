"""`DEPS.md` gives a reason for each dependency, and for nothing else."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

IMPORTED_AS = {"python-dotenv": "dotenv"}
"""The module of a package, where it is not called as the package is."""


def name_of(requirement: str) -> str:
    """The package that a requirement names, without its version."""
    return re.split(r"[<>=!~\[; ]", requirement)[0]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run, _, develop = (ROOT / "DEPS.md").read_text(encoding="utf-8").partition("## To develop")
    for text, requirements in (
        (run, project["dependencies"]),
        (develop, project["optional-dependencies"]["dev"]),
    ):
        listed = re.findall(r"^\| ([a-z0-9-]+) \| \S", text, re.MULTILINE)
        assert [name for name in listed if name != "package"] == [
            name_of(requirement) for requirement in requirements
        ]


def test_every_import_of_the_server_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = map(name_of, project["dependencies"])
    declared = {IMPORTED_AS.get(package, package.replace("-", "_")) for package in packages}
    known = declared | {"telesrv", *sys.stdlib_module_names}
    for path in sorted((ROOT / "telesrv").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            unknown = {name.split(".")[0] for name in names} - known
            assert not unknown, f"{path.relative_to(ROOT)}:{node.lineno} imports {unknown}"
