"""`DEPS.md` gives a reason for each dependency, and for nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run, _, develop = (ROOT / "DEPS.md").read_text(encoding="utf-8").partition("## To develop")
    for text, requirements in (
        (run, project["dependencies"]),
        (develop, project["optional-dependencies"]["dev"]),
    ):
        listed = re.findall(r"^\| ([a-z0-9-]+) \| \S", text, re.MULTILINE)
        assert [name for name in listed if name != "package"] == [
            re.split(r"[<>=!~\[ ]", requirement)[0] for requirement in requirements
        ]
