"""Rules that every statement of the store keeps, so that one code base runs on one machine and on shards."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import telesrv.store

PACKAGE = Path(telesrv.store.__file__).parent
OWNERS = {
    "private_messages": "sender_user_id",
    "message_boxes": "owner_user_id",
    "dialogs": "owner_user_id",
    "dialog_settings": "owner_user_id",
    "dialog_filters": "owner_user_id",
    "dialog_drafts": "owner_user_id",
    "top_peer_resets": "owner_user_id",
    "contact_blocks": "owner_user_id",
    "contacts": "owner_user_id",
    "saved_contacts": "owner_user_id",
    "saved_phones": "phone",
    "user_update_events": "user_id",
    "update_marks": "user_id",
    "users": "user_id",
    "authorizations": "user_id",
    "privacy_rules": "user_id",
    "notify_settings": "owner_user_id",
    "dispatch_outbox": "bucket",
    "history_ttl": "bucket",
    "default_history_ttl": "owner_user_id",
    "scheduled_messages": "bucket",
    "online_waits": "bucket",
    "search_segments": "owner_user_id",
    "search_marks": "owner_user_id",
}
"""The partitioned tables and the column that every statement on them gives."""
OVER_ALL = {"SQL_STATS", "SQL_DUE", "SQL_IDLE", "SQL_ACCOUNTS"}
"""Reads for operators and for polling: of the outbox, of accounts, and of those that nobody uses."""
FORBIDDEN = {
    r"\bMERGE\b": "refused across shards",
    r"\bLATERAL\b": "refused across shards with LIMIT",
    r"\b(LISTEN|NOTIFY)\b": "processes speak through Redis",
    r"pg_(try_)?advisory": "processes speak through Redis",
    r"VALUES\s*\([^)]*\(\s*SELECT": "refused across shards",
    r"\bSELECT \*": "columns are named",
    r"\b(serial|IDENTITY|nextval)\b": "ids are made by the server",
    r"\b(clock_timestamp|timeofday|random|gen_random_uuid)\(": "volatile: refused in changes across shards",
}
STATEMENT = re.compile(r"^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b")


def statements() -> Iterator[tuple[str, str, str]]:
    """Yields (module, name, SQL) of every statement constant."""
    for path in sorted(PACKAGE.glob("*.py")):
        if path.stem == "__init__":
            continue
        for name, value in vars(import_module(f"telesrv.store.{path.stem}")).items():
            if name.startswith("SQL_") and isinstance(value, str):
                yield path.stem, name, value


ALL = [pytest.param(name, sql, id=f"{module}.{name}") for module, name, sql in statements()]


@pytest.mark.parametrize(("name", "sql"), ALL)
def test_statement(name: str, sql: str) -> None:
    assert STATEMENT.match(sql), "one statement, named for what it does"
    for pattern, why in FORBIDDEN.items():
        assert not re.search(pattern, sql, re.IGNORECASE), why
    for table, owner in OWNERS.items():
        if not re.search(rf"\b{table}\b", sql) or name in OVER_ALL:
            continue
        insert = re.search(rf"INSERT INTO {table}\b(?: AS \w+)?\s*\(\s*(\w+)", sql)
        if insert:
            assert insert[1] == owner, f"the first column is the owner's: {owner}"
            assert "ON CONFLICT" in sql, "a duplicate is expected, not an error"
        if re.search(rf"(FROM|JOIN|UPDATE|USING) {table}\b", sql):
            given = rf"(\w+\.)?{owner}\s*(=|IN)\s*(\$\d|ANY|\w+\.\w+|\()"
            assert re.search(given, sql), f"the owner is given: {owner}"
        assert not re.search(
            rf"SET[^;]*\b{owner} = (?!excluded)[^;]*WHERE", sql.split("WHERE", maxsplit=1)[0]
        ), "an owner is never changed"
    if "FOR UPDATE" in sql:
        assert re.search(r"(\w+_id|bucket) = (\$1|ANY)", sql), "rows are locked only with their owner given"
    if "SKIP LOCKED" in sql:
        assert re.search(r"bucket = (\$1|ANY\(\$1)", sql), "a claim is in given buckets"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.stem)
def test_every_statement_is_a_described_constant(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    lines, tree = source.splitlines(), ast.parse(source)
    accounted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            accounted.add(id(node.value))  # a docstring
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
            continue
        if node.target.id.startswith("SQL_"):
            assert lines[node.lineno - 2].startswith("# "), f"{node.target.id}: no line describes it"
            accounted.update(map(id, ast.walk(node.value)))
    for part in ast.walk(tree):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in accounted:
            assert not STATEMENT.match(part.value), f"line {part.lineno}: a statement without a name"


def test_the_lint_sees_every_partitioned_table() -> None:
    migrations = Path(__file__).parents[2] / "migrations"
    instruction = re.compile(r"^-- telesrv:partitions (\w+)", re.MULTILINE)
    partitioned = {
        table
        for path in migrations.glob("*.sql")
        for table in instruction.findall(path.read_text(encoding="utf-8"))
    }
    assert partitioned - {"auth_keys", "auth_key_users"} == OWNERS.keys()
    assert len(ALL) > 50
