"""What a handler is given: the stores, the caller, the clock, and the sessions of other devices."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from telesrv.clock import Clock
from telesrv.domain.origin import Origin
from telesrv.domain.users import ClientInfo
from telesrv.rpc.codes import CodeDelivery
from telesrv.rpc.errors import unauthorized

if TYPE_CHECKING:
    from telesrv.rpc.call import Call
    from telesrv.store import Store
    from telesrv.tl import types


@dataclass(frozen=True, slots=True)
class RpcConfig:
    """What the handlers need to know of the server."""

    advertise_ip: str = "127.0.0.1"
    """The address clients are told to connect to."""
    port: int = 2398
    code_webhook: str | None = field(default=None, repr=False)
    """Where login codes are posted; None: they go to the operator's log."""


@dataclass(slots=True)
class Caller:
    """Who calls: one gateway session, kept by the gateway and brought up to date by the dispatcher."""

    auth_key_id: int
    """The permanent key's id; a temporary key's own while it is not bound."""
    session_id: int
    temp_auth_key_id: int | None = None
    layer: int = 0
    """Of the last invokeWithLayer of the key; 0 before the first."""
    client: ClientInfo = field(default_factory=ClientInfo)
    user_id: int | None = None
    """Whose account it is; looked up afresh for every call."""
    ip: str = ""
    dc_id: int = 2
    """The DC this client believes it is connected to."""

    @property
    def unbound(self) -> bool:
        """Tells whether the key is a temporary one that no permanent key is bound to yet."""
        return self.temp_auth_key_id is not None and self.temp_auth_key_id == self.auth_key_id

    @property
    def origin(self) -> Origin:
        """The session as the origin of a change."""
        return Origin(self.auth_key_id, self.session_id)


class SessionControl(Protocol):
    """What a call may do to sessions, its own and others', in every process; the gateway's node is it."""

    async def bind_temp_key(self, temp_auth_key_id: int, perm_auth_key_id: int) -> None:
        """Makes every session of the temporary key one of the permanent key."""
        ...

    async def logged_in(self, auth_key_id: int, user_id: int) -> None:
        """Sessions of the key take the account's updates from now on."""
        ...

    async def log_out(self, auth_key_ids: Iterable[int]) -> None:
        """Sessions of these keys take no update of their old account any more, not even a queued one."""
        ...

    async def noticed(self, auth_key_id: int, user_id: int | None) -> None:
        """Brings the key's sessions of this process in line with the account that the store has for it."""
        ...

    async def went_offline(self, user_id: int) -> None:
        """Has what the account does next show it online again, whichever process it does it at.

        Raises:
            Unavailable: Redis is away.
        """
        ...

    async def with_sessions(self, user_ids: Collection[int]) -> list[int]:
        """Returns those of the accounts that have sessions, in any process, as far as that can be known."""
        ...

    async def push_transient(
        self, user_id: int, update: types.TypeUpdate, exclude: tuple[int, int] | None = None
    ) -> None:
        """Gives an update without pts to the account's sessions that are online now.

        Args:
            exclude: (auth_key_id, session_id) of a session that must not get it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """One call as its handler sees it."""

    store: Store
    config: RpcConfig
    clock: Clock
    sessions: SessionControl
    codes: CodeDelivery
    caller: Caller
    call: Call

    @property
    def user_id(self) -> int:
        """The account that calls.

        Raises:
            RpcError: 401 AUTH_KEY_UNREGISTERED when nobody is logged in.
        """
        if self.caller.user_id is None:
            raise unauthorized()
        return self.caller.user_id

    @property
    def secret(self) -> bytes:
        """The secret that access hashes are made from."""
        return self.store.secret

    @property
    def origin(self) -> Origin:
        """The caller as the origin of a change: the session that it is not pushed to."""
        return self.caller.origin

    def now(self) -> int:
        """Returns the time in whole unix seconds."""
        return int(self.clock.time())
