"""A screen of its own for a graphical client: Xvfb with eyes (ImageMagick, tesseract) and hands (xdotool)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT = 1280, 900
PROGRAMS = ("Xvfb", "import", "convert", "tesseract", "xdotool")

PATIENCE_S = 120.0
"""After how long a wait for something to show is given up: against hanging, no measure of speed."""
LOOK_EVERY_S = 0.2
ENLARGE = 3
"""How much a picture is enlarged before it is read; text of 13 pixels is too small for tesseract as it is."""


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of the screen, in pixels."""

    x: int
    y: int
    width: int
    height: int


WHOLE = Region(0, 0, WIDTH, HEIGHT)


def _dark(region: Region) -> tuple[str, ...]:
    """Dark text: whatever is not dark becomes paper, patterns included."""
    return "-level", "10%,45%"


def _different(region: Region) -> tuple[str, ...]:
    """Text of any colour, white on a button too: what differs from its surroundings."""
    return (
        *("(", "+clone", "-resize", "50%", "-statistic", "median", "9x9"),
        *("-resize", f"{region.width}x{region.height}!", ")"),
        *("-compose", "difference", "-composite", "-auto-level", "-negate"),
    )


INKS: dict[str, Callable[[Region], tuple[str, ...]]] = {"dark": _dark, "different": _different}
"""How a picture is prepared for reading, the cheap way first."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word that was read on the screen, and its middle."""

    text: str
    x: int
    y: int
    line: tuple[str, int, int, int]


class Screen:
    """An X server with nothing on it; pictures go to `directory`.

    Lifecycle: `start`, `stop`. Concurrency: one event loop, one caller at a time.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.display = ""
        self._server: asyncio.subprocess.Process | None = None
        self._pictures = 0

    async def start(self) -> None:
        """Start the X server on a display that is free."""
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            raise RuntimeError(f"not installed: {', '.join(missing)}; see .ci/run for the packages")
        self.directory.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        try:
            self._server = await asyncio.create_subprocess_exec(
                *(
                    "Xvfb",
                    "-displayfd",
                    str(writing),
                    "-screen",
                    "0",
                    f"{WIDTH}x{HEIGHT}x24",
                    "-wr",
                    "-nolisten",
                    "tcp",
                ),
                pass_fds=(writing,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        finally:
            os.close(writing)
        with os.fdopen(reading) as pipe:
            number = await asyncio.to_thread(pipe.readline)
        if not number.strip():
            raise RuntimeError("Xvfb did not start")
        self.display = f":{number.strip()}"

    async def stop(self) -> None:
        """End the X server and with it every program on it."""
        if self._server is not None and self._server.returncode is None:
            self._server.send_signal(signal.SIGTERM)
            await self._server.wait()

    async def picture(self, name: str) -> Path:
        """Save what the screen shows now as the next numbered picture."""
        self._pictures += 1
        path = self.directory / f"{self._pictures:03d}-{name}.png"
        await self._run("import", "-window", "root", str(path))
        return path

    async def words(self, region: Region = WHOLE) -> list[Word]:
        """What can be read in the region, at positions on the whole screen; a word may come twice."""
        seen = await self._run("import", "-window", "root", *_crop(region), "-colorspace", "gray", "ppm:-")
        return [word for ink in INKS for word in await self._read(seen, region, ink)]

    async def _read(self, seen: bytes, region: Region, ink: str) -> list[Word]:
        """Read a picture of the region for one kind of ink."""
        picture = await self._run(
            *("convert", "-", *INKS[ink](region), "-resize", f"{ENLARGE * 100}%", "png:-"), given=seen
        )
        table = await self._run("tesseract", "-", "-", "--psm", "11", "tsv", given=picture)
        words = []
        for row in table.decode("utf-8", "replace").splitlines()[1:]:
            cells = row.split("\t")
            if len(cells) == 12 and cells[11].strip():
                left, top, width, height = (int(cell) // ENLARGE for cell in cells[6:10])
                place = region.x + left + width // 2, region.y + top + height // 2
                line = int(cells[2]), int(cells[3]), int(cells[4])
                words.append(Word(cells[11].strip(), *place, (ink, *line)))
        return words

    async def find(self, text: str, region: Region = WHOLE) -> tuple[int, int] | None:
        """The middle of the first line part that reads `text`, letter case and spaces aside."""
        wanted = "".join(text.casefold().split())
        seen = await self._run("import", "-window", "root", *_crop(region), "-colorspace", "gray", "ppm:-")
        for ink in INKS:
            words = await self._read(seen, region, ink)
            for _, line in itertools.groupby(words, key=lambda word: word.line):
                place = _place(wanted, list(line))
                if place is not None:
                    return place
        return None

    async def wait_for(self, text: str, region: Region = WHOLE) -> tuple[int, int]:
        """Where `text` shows, once it does.

        Raises:
            AssertionError: it does not come; the text has what is read instead, and a picture is kept.
        """
        place: tuple[int, int] | None = None

        async def shows() -> bool:
            nonlocal place
            place = await self.find(text, region)
            return place is not None

        await self.until(shows, f"{text!r} shows")
        assert place is not None
        return place

    async def wait_gone(self, text: str, region: Region = WHOLE) -> None:
        """Return once `text` does not show; raises as `wait_for`."""

        async def gone() -> bool:
            return await self.find(text, region) is None

        await self.until(gone, f"{text!r} does not show")

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Return once `condition` holds.

        Raises:
            AssertionError: it never does; a picture is kept.
        """
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not await condition():
            if asyncio.get_running_loop().time() > deadline:
                path = await self.picture("gave-up")
                read = " ".join(word.text for word in await self.words())
                raise AssertionError(f"gave up waiting until {what}; {path.name} reads: {read}")
            await asyncio.sleep(LOOK_EVERY_S)

    async def click(self, x: int, y: int) -> None:
        """Press and release the first button at a place."""
        await self._run("xdotool", "mousemove", "--sync", str(x), str(y), "click", "1")

    async def click_text(self, text: str, region: Region = WHOLE) -> None:
        """Click on `text`, once it shows."""
        await self.click(*await self.wait_for(text, region))

    async def type(self, text: str) -> None:
        """Type text into whatever has the keyboard."""
        await self._run("xdotool", "type", "--delay", "30", "--", text)

    async def key(self, *names: str) -> None:
        """Press keys by their X names, such as `Return` or `ctrl+a`."""
        await self._run("xdotool", "key", "--delay", "30", *names)

    async def _run(self, *command: str, given: bytes | None = None) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "DISPLAY": self.display, "OMP_THREAD_LIMIT": "1"},
        )
        output, errors = await process.communicate(given)
        if process.returncode != 0:
            raise RuntimeError(f"{command[0]} failed: {errors.decode('utf-8', 'replace').strip()}")
        return output


def _place(wanted: str, line: list[Word]) -> tuple[int, int] | None:
    """The middle of the shortest run of words of a line that has `wanted`."""
    for end in range(1, len(line) + 1):
        for start in range(end - 1, -1, -1):
            run = line[start:end]
            if wanted in "".join(word.text.casefold() for word in run):
                return sum(word.x for word in run) // len(run), sum(word.y for word in run) // len(run)
    return None


def _crop(region: Region) -> tuple[str, ...]:
    if region == WHOLE:
        return ()
    return "-crop", f"{region.width}x{region.height}+{region.x}+{region.y}", "+repage"


async def end_group(process: asyncio.subprocess.Process) -> None:
    """End a process that leads a session, and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 10)
