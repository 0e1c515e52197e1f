"""A stock Telegram Desktop in a work directory of its own, on a screen of its own.

    screen = Screen(artifacts); await screen.start()
    desktop = Desktop(screen, workdir); desktop.point_at("127.0.0.1", port, public_key)
    await desktop.start(); await desktop.log_in("15550001", "12345")

The client is never changed: only its work directory is written before its first start. Run the tests in a
network namespace without a way out (`make test-tdesktop`), as it looks for Telegram's own servers otherwise.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from tests.tdesktop import tdata
from tests.tdesktop.screen import Region, Screen, end_group

CHAT_LIST = Region(220, 190, 300, 575)
CHAT = Region(520, 192, 540, 525)
COMPOSE = Region(560, 718, 400, 48)
HEADER = Region(520, 130, 440, 60)
SEARCH = Region(260, 130, 260, 60)
"""Where the parts of the window are when it opens on an empty screen of 1280 by 900."""


class Desktop:
    """One installation: it keeps its account from one `start` to the next.

    Lifecycle: `point_at` once, then `start` and `stop` as often as wanted.
    """

    def __init__(self, screen: Screen, workdir: Path, program: str = "telegram-desktop") -> None:
        self.screen = screen
        self.workdir = workdir
        self.program = program
        self._process: asyncio.subprocess.Process | None = None

    def point_at(self, host: str, port: int, public_key: Path) -> None:
        """Write the work directory: every data centre is `host:port`, with this RSA key."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        tdata.write(self.workdir, host, port, public_key)

    async def start(self) -> None:
        """Start the client; it shows its window when it gets to it."""
        if shutil.which(self.program) is None:
            raise RuntimeError(f"not installed: {self.program}; see .ci/run for the packages")
        home = self.workdir / "home"
        runtime = self.workdir / "run"
        for directory in (home, runtime):
            directory.mkdir(mode=0o700, exist_ok=True)
        with (self.workdir / "output.log").open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *("dbus-run-session", "--", self.program, "-workdir", str(self.workdir), "-debug"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "LANG": "C.UTF-8",
                    "DISPLAY": self.screen.display,
                    "HOME": str(home),
                    "XDG_RUNTIME_DIR": str(runtime),
                    "QT_QPA_PLATFORM": "xcb",
                    "LIBGL_ALWAYS_SOFTWARE": "1",
                },
            )

    async def stop(self) -> None:
        """End the client and its session bus."""
        if self._process is not None:
            await end_group(self._process)
            self._process = None

    @property
    def running(self) -> bool:
        """Whether the client has not ended, as it does when an answer breaks one of its assertions."""
        return self._process is not None and self._process.returncode is None

    async def log_in(self, phone: str, code: str) -> None:
        """Go from the first page to the list of chats by a phone number of country code 1 and a code."""
        screen = self.screen
        await screen.click_text("Start Messaging")
        await screen.click_text("phone number")
        await screen.wait_for("Your phone number")
        # The page offers country code 1 and has the caret in the field for the rest.
        await screen.type(phone.removeprefix("+").removeprefix("1"))
        await screen.picture("phone")
        await screen.key("Return")
        await screen.until(self._code_page, "the page for the code shows")
        await screen.picture("code")
        await screen.type(code)

    async def _code_page(self) -> bool:
        return (
            await self.screen.find("Your phone number") is None and await self.screen.find("code") is not None
        )

    async def send(self, text: str) -> None:
        """Send a text to the open chat."""
        await self.screen.click_text("Write a message", COMPOSE)
        await self.screen.type(text)
        await self.screen.key("Return")
