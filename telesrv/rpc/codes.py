"""How login codes reach their owners.

A sender is told of a code after it is stored. It takes the code away in bounded time and never raises: a
code that could not be delivered is reported in the log (without the code) and the client may ask again.

*Spec: User Authorization*
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

log: Final = structlog.get_logger(__name__)

ATTEMPTS: Final = 3
"""How often the webhook is tried."""
TIMEOUT_S: Final = 5.0
"""How long one try may take."""


class CodeSender(Protocol):
    """Takes a login code to the owner of a phone number."""

    async def send(self, phone: str, code: str, expires_at: int) -> bool:
        """Delivers the code; returns whether that worked. Never raises but for cancellation."""
        ...


@dataclass(frozen=True, slots=True)
class LogCodeSender:
    """The operator's log is the delivery channel: for servers that have no other."""

    async def send(self, phone: str, code: str, expires_at: int) -> bool:
        """Writes one INFO line with the code: the operator reads it out to the user."""
        log.info("login code", phone=phone, code=code, expires_at=expires_at)
        return True


@dataclass(frozen=True, slots=True)
class WebhookCodeSender:
    """Posts ``{"phone", "code", "expires_at"}`` as JSON to a URL of the operator's.

    A status 2xx is a delivery. Anything else is tried again, at most ``ATTEMPTS`` times of ``TIMEOUT_S``
    each, with a pause that doubles. Neither the code nor the URL, which may hold a token, is logged.
    """

    url: str = field(repr=False)
    attempts: int = ATTEMPTS
    timeout_s: float = TIMEOUT_S
    pause_s: float = 0.2

    async def send(self, phone: str, code: str, expires_at: int) -> bool:
        """Posts the code in a thread; returns whether a try succeeded."""
        body = json.dumps({"phone": phone, "code": code, "expires_at": expires_at}).encode()
        problem = ""
        for attempt in range(self.attempts):
            if attempt:
                await asyncio.sleep(self.pause_s * 2 ** (attempt - 1))
            problem = await asyncio.to_thread(self._post, body)
            if not problem:
                return True
        log.error(
            "login code was not delivered to TELESRV_CODE_WEBHOOK",
            attempts=self.attempts,
            problem=problem,
        )
        return False

    def _post(self, body: bytes) -> str:
        """Returns what went wrong, empty when nothing did."""
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked where the setting is read
            self.url, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            with _OPENER.open(request, timeout=self.timeout_s):
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            return f"status {error.code}"
        except urllib.error.URLError as error:
            return str(error.reason) or type(error).__name__
        except (OSError, ValueError) as error:
            return type(error).__name__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, or take the code to a place nobody configured."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirect())


class CodeDelivery:
    """Delivers codes beside the calls that made them: an answer does not wait for a slow webhook.

    Concurrency: at most ``MAX_PENDING`` deliveries at once; one more is dropped and reported, and the client
    may ask again. Lifecycle: ``close`` ends the deliveries under way.
    """

    MAX_PENDING: Final = 1_000

    def __init__(self, sender: CodeSender) -> None:
        self._sender = sender
        self._tasks: set[asyncio.Task[bool]] = set()

    def deliver(self, phone: str, code: str, expires_at: int) -> None:
        """Starts the delivery of one code and returns at once."""
        if len(self._tasks) >= self.MAX_PENDING:
            log.error("login code was not delivered", problem="too many deliveries are under way")
            return
        task = asyncio.get_running_loop().create_task(self._sender.send(phone, code, expires_at))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def drain(self) -> None:
        """Returns when every delivery that was started has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancels the deliveries under way and waits for their end."""
        for task in self._tasks:
            task.cancel()
        await self.drain()

    def _done(self, task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a code sender failed", exc_info=error)
