"""`python -m tools.gen` writes the generated modules; with `--check` it only compares and exits 1 on a
difference."""

from __future__ import annotations

import sys
from pathlib import Path

from telesrv.tl.schema import schema
from tools.gen.emit import modules

TL = Path(__file__).parents[2] / "telesrv" / "tl"


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    files = modules(schema())
    present = {p.relative_to(TL).as_posix() for d in ("types", "functions") for p in (TL / d).glob("*.py*")}
    present |= {p.name for p in TL.glob("mt.py*")}
    wrong = sorted(
        name for name in files if not (TL / name).exists() or (TL / name).read_text() != files[name]
    )
    surplus = sorted(present - files.keys())
    if arguments == ["--check"]:
        for name in wrong + surplus:
            print(f"telesrv/tl/{name} is not what tools.gen makes of the facts; run `make gen`")
        return 1 if wrong or surplus else 0
    for name in surplus:
        (TL / name).unlink()
    for name in wrong:
        (TL / name).parent.mkdir(exist_ok=True)
        (TL / name).write_text(files[name])
    print(f"{len(wrong)} of {len(files)} files written, {len(surplus)} removed")
    return 0


sys.exit(main(sys.argv[1:]))
