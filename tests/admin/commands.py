"""`telesrv-admin` as a process of its own, for each command that a test gives.

Python takes most of a second to load what the commands need, and there are many of them: one process loads it
once and forks for each. A fork has its own settings, directory, output and exit code, as a fresh start has.

The forking process reads requests, one JSON object a line: `arguments`, `environment`, `directory`, and the
files `out` and `err`; it answers each by a line with the exit code.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Forker:
    """The process that forks for each command."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.admin.commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._turn = threading.Lock()

    def run(self, arguments: list[str], environment: dict[str, str], directory: Path) -> Answer:
        """Runs one command; blocks until it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as name, self._turn:
            out, err = Path(name, "out"), Path(name, "err")
            request = {
                "arguments": arguments,
                "environment": environment,
                "directory": str(directory),
                "out": str(out),
                "err": str(err),
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return Answer(code, out.read_text(), err.read_text())

    def close(self) -> None:
        """Ends it."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


class Cli:
    """Runs `telesrv-admin` with settings of its own."""

    def __init__(self, forker: Forker, directory: Path, **settings: str) -> None:
        self._forker = forker
        self._directory = directory
        self.settings = {"TELESRV_DATA_DIR": str(directory / "data"), **settings}

    async def __call__(self, *arguments: str, **settings: str) -> Answer:
        environment = {**os.environ, **self.settings, **settings}
        return await asyncio.to_thread(self._forker.run, list(arguments), environment, self._directory)


def _serve() -> None:
    """Forks for each request of standard input."""
    import telesrv.admin.config_check  # noqa: PLC0415
    import telesrv.admin.tdesktop  # noqa: PLC0415
    import telesrv.store  # noqa: F401, PLC0415
    from telesrv.admin.cli import main  # noqa: PLC0415

    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(_command(request, main))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _command(request: dict[str, Any], main: Any) -> int:
    """Runs one command in this process; returns its exit code."""
    for descriptor, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv = ["telesrv-admin", *request["arguments"]]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    _serve()
