"""Where the server of a data directory listens, noted for those who set clients up for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

NAME: Final = "address.json"


def note_address(data_dir: Path, host: str, port: int) -> None:
    """Notes that the server of `data_dir` is reached at `host` and `port` from this machine."""
    (data_dir / NAME).write_text(json.dumps({"host": host, "port": port}) + "\n", encoding="utf-8")


def maybe_noted_address(data_dir: Path) -> tuple[str, int] | None:
    """Where the server of `data_dir` was last started, or None when it never was."""
    try:
        noted = json.loads((data_dir / NAME).read_text(encoding="utf-8"))
        return str(noted["host"]), int(noted["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
