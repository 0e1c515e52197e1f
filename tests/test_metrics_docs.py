"""What monitoring is given names only what is there, and all of it is explained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from telesrv import metrics
from telesrv.admin.cli import app
from telesrv.config import Settings
from telesrv.health import HealthServer
from telesrv.store.committer import BATCH_SIZE

OPERATIONS = Path(__file__).parents[1] / "docs/operations"
PAGE = (OPERATIONS / "README.md").read_text(encoding="utf-8")
ALERTS = (OPERATIONS / "alerts.yml").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((OPERATIONS / "dashboard.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *re.findall(r"^ +expr: (.+)$", ALERTS, re.MULTILINE),
]
RULE = re.compile(
    r"      - alert: (?P<name>Telesrv\w+)\n"
    r"        expr: (?P<expr>\S.*)\n"
    r"        for: \d+m\n"
    r"        labels:\n"
    r"          severity: (critical|warning)\n"
    r"        annotations:\n"
    r'          summary: "[A-Z1-9{t][^"]+\."\n'
    r'          description: "[A-Z1-9t][^"]+\."\n'
)
ALERT_NAMES = [match["name"] for match in RULE.finditer(ALERTS)]


async def served() -> dict[str, set[str]]:
    """Every sample there can be and its labels: the counted ones, and those of a scrape."""
    samples: dict[str, set[str]] = {}
    for metric in metrics.REGISTRY._names_to_collectors.values():
        labels = set(metric._labelnames)  # type: ignore[attr-defined]
        name = metric._name  # type: ignore[attr-defined]
        kind = metric._type  # type: ignore[attr-defined]
        if kind == "counter":
            samples[f"{name}_total"] = labels
        elif kind == "histogram":
            samples[name] = labels
            samples |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
        else:
            samples[name] = labels
    return samples


@pytest.fixture
async def samples(postgres_dsn: str, redis_url: str, redis_prefix: str) -> dict[str, set[str]]:
    server = HealthServer(None, postgres_dsn, redis_url, None, lambda: True, redis_prefix=redis_prefix)
    _, body, _ = await server._page("/metrics", "")
    scraped = {
        match["name"]: set(re.findall(r'(\w+)="', match["labels"] or ""))
        for match in re.finditer(r"^(?P<name>telesrv_\w+)(\{(?P<labels>.*)\})? ", body.decode(), re.MULTILINE)
    }
    return {**scraped, **await served()}


async def test_only_what_exists_is_named(samples: dict[str, set[str]]) -> None:
    for text in (*EXPRESSIONS, ALERTS):
        assert set(re.findall(r"telesrv_\w+", text)) <= samples.keys(), text
    documented = set(re.findall(r"^\| `(telesrv_\w+)`", PAGE, re.MULTILINE))
    assert documented <= samples.keys()
    assert set(re.findall(r"telesrv_\w+", PAGE)) <= documented


async def test_every_metric_is_explained_and_shown(samples: dict[str, set[str]]) -> None:
    rows = re.findall(r"^\| `(telesrv_\w+)` \|(.*?)\| \S", PAGE, re.MULTILINE)
    whole = {name for name in samples if not re.search(r"_(bucket|sum|count|created)$", name)}
    assert {name for name, _ in rows} == whole
    for name, labels in rows:
        assert set(re.findall(r"`(\w+)`", labels)) == samples[name], name
    shown = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for expression in EXPRESSIONS
        for name in re.findall(r"telesrv_\w+", expression)
    }
    assert shown == whole


async def test_expressions_use_the_labels_there_are(samples: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS:
        names = re.findall(r"telesrv_\w+", expression) or ["up"]
        known = set.union(*(samples.get(name, {"job"}) for name in names)) | {"instance"}
        used = set(re.findall(r'(\w+)="', expression))
        for group in re.findall(r"by \(([^)]*)\)", expression):
            used |= {label.strip() for label in group.split(",")}
        assert used <= known, expression
        assert expression.count("(") == expression.count(")")


def test_every_alert_is_whole_and_explained() -> None:
    assert len(ALERT_NAMES) == ALERTS.count("- alert:") == len(set(ALERT_NAMES)) > 5
    explained = re.findall(r"^### (Telesrv\w+)\n\S", PAGE, re.MULTILINE)
    assert explained == ALERT_NAMES


def test_every_panel_is_explained_in_place_and_on_the_page() -> None:
    titles = [panel["title"] for panel in PANELS]
    part = PAGE.partition("\n## Panels\n")[2].partition("\n## Metrics\n")[0]
    assert re.findall(r"^### (.+)\n\S", part, re.MULTILINE) == titles
    assert all(len(panel["description"]) > 40 for panel in PANELS)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_panels_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_commands_and_settings_that_the_page_names_exist() -> None:
    settings = {f"TELESRV_{name.upper()}" for name in Settings.model_fields}
    texts = PAGE + ALERTS + json.dumps(DASHBOARD)
    assert set(re.findall(r"TELESRV_[A-Z_]+[A-Z]", texts)) <= settings
    groups = {
        group.name: names(group.typer_instance) for group in app.registered_groups if group.typer_instance
    }
    for first, second in re.findall(r"telesrv-admin ([a-z][a-z-]+)(?: ([a-z]+))?", texts):
        assert second in groups[first] if first in groups else first in names(app), (first, second)


def names(commands: typer.Typer) -> set[str]:
    """The commands directly in a group."""
    return {
        command.name or command.callback.__name__
        for command in commands.registered_commands
        if command.callback is not None
    }


def test_the_largest_batch_is_that_of_the_committer() -> None:
    assert f"at {BATCH_SIZE} it can grow no further" in PAGE
    [panel] = [panel for panel in PANELS if "telesrv_commit_batch_size" in str(panel["targets"])]
    assert f"At {BATCH_SIZE}, the most" in panel["description"]
