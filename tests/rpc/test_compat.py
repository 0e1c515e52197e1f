"""The compatibility table is what the handlers are."""

from __future__ import annotations

from telesrv.rpc import compat
from telesrv.rpc.registry import Status


def test_the_table_in_the_tree_is_current() -> None:
    """Run `python -m telesrv.rpc.compat` when a handler was added."""
    assert compat.PATH.read_text(encoding="utf-8") == compat.render()


def test_what_is_served_says_so() -> None:
    for name, (status, note) in compat.statuses().items():
        assert status is Status.TODO or note.endswith(".") or "invoke" in name or name == "initConnection", (
            name
        )
