"""The dispatcher: one call in, the bytes of its answer out.

Guarantees: it never raises but for cancellation; a refused call is an ``rpc_error`` of the public list; a
bug is one traceback in the log and a bare 500 for the client, and the connection lives; an outage of the
stores is a 500, never a 401, which would log people out.

Concurrency: any number of calls at once; it keeps no state of a call.

*Spec: Calling methods; Error handling*
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import structlog

from telesrv import metrics, tl
from telesrv.clock import Clock
from telesrv.domain.errors import DomainError, Unavailable
from telesrv.logs import Seldom
from telesrv.rpc import call as calls
from telesrv.rpc.call import Call
from telesrv.rpc.codes import CodeDelivery, CodeSender, LogCodeSender, WebhookCodeSender
from telesrv.rpc.context import Caller, Context, RpcConfig, SessionControl
from telesrv.rpc.errors import BUG, FLOOD, UNAVAILABLE, RpcError, bad_request, of_domain, unauthorized
from telesrv.rpc.registry import Handler, Status, load
from telesrv.tl import mt
from telesrv.tl.schema import FUNCTION, schema

if TYPE_CHECKING:
    from telesrv.domain.users import AuthKeyRecord, ClientInfo
    from telesrv.store import Store

log: Final = structlog.get_logger(__name__)

_MAX_LAYER: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to."""

    body: bytes
    """The boxed result in the caller's layer, or an ``rpc_error``: what rpc_result wraps."""
    ok: bool
    """Whether it is a result; calls that were to follow this one fail otherwise."""
    label: str = "ok"
    """What is counted: ok, refused, limited, unavailable or failed."""


class Dispatcher:
    """Parses calls, finds who calls, runs the handler and writes the answer in the caller's layer."""

    def __init__(
        self,
        store: Store,
        config: RpcConfig,
        clock: Clock,
        sessions: SessionControl,
        code_sender: CodeSender | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._sessions = sessions
        self._codes = CodeDelivery(code_sender or _code_sender(config))
        self._handlers = load()
        self._away = Seldom(log, logging.WARNING, "a store is away")

    async def close(self) -> None:
        """Ends what runs beside the calls."""
        await self._codes.close()

    def parse(self, body: bytes | memoryview) -> Call:
        """Returns the call in *body*; see ``telesrv.rpc.call.parse``."""
        return calls.parse(body)

    async def execute(self, call: Call, caller: Caller) -> Outcome:
        """Runs the call and returns its result, or its ``rpc_error``, as TL bytes.

        Args:
            call: from ``parse``, with the msg_id filled in.
            caller: is brought up to date: layer and client by this call's wrappers, user_id by the store,
                auth_key_id when a temporary key is bound.

        *Spec: Calling methods*
        """
        started = self._clock.monotonic()
        outcome = await self._outcome(call, caller)
        served = self._handlers.get(type(call.method))
        metrics.rpc(None if served is None else served.name, outcome.label, self._clock.monotonic() - started)
        return outcome

    async def _outcome(self, call: Call, caller: Caller) -> Outcome:
        try:
            return Outcome(await self._run(call, caller), ok=True)
        except RpcError as error:
            refused = error
        except DomainError as error:
            refused = of_domain(error) or BUG
            if refused is BUG:
                log.exception("a rule's error has no public name", method=call.name)
        except Unavailable as error:
            self._away.tell(method=call.name, problem=str(error))
            refused = UNAVAILABLE
        except Exception:
            log.exception("a call failed", method=call.name, layer=caller.layer)
            refused = BUG
        body = tl.write(mt.RpcError(error_code=refused.code, error_message=refused.type))
        return Outcome(body, ok=False, label=_label(refused))

    def unavailable(self) -> bytes:
        """Returns the ``rpc_error`` for a call that a store's outage kept from being run."""
        return tl.write(mt.RpcError(error_code=UNAVAILABLE.code, error_message=UNAVAILABLE.type))

    # Keys

    async def auth_key(self, auth_key_id: int) -> AuthKeyRecord | None:
        """Returns the key as stored, or None when there is none.

        Raises:
            Unavailable: the store is away; the key may well exist.
        """
        return await self._store.auth_keys.get(auth_key_id)

    async def save_auth_key(self, record: AuthKeyRecord) -> bool:
        """Stores a new key; False when its id is taken."""
        return await self._store.auth_keys.save(record)

    async def destroy_auth_key(self, caller: Caller) -> bool:
        """Forgets the key the caller's packets are encrypted with, and what was bound to it.

        *Spec: destroy_auth_key (Service Messages)*
        """
        if caller.temp_auth_key_id is not None:
            return await self._store.auth_keys.delete(caller.temp_auth_key_id)
        await self._store.accounts.log_out(caller.auth_key_id)
        await self._sessions.log_out([caller.auth_key_id])
        return await self._store.auth_keys.delete(caller.auth_key_id)

    async def identify(self, caller: Caller) -> bool:
        """Fills in whose account the caller's key is, and its last layer when the session has none.

        Returns:
            False when the store is away: nothing is known then, and the next call asks again.
        """
        try:
            if not caller.unbound:
                if not caller.layer:
                    await self._recall_layer(caller)
                await self._find_account(caller)
        except Unavailable:
            return False
        return True

    async def _run(self, call: Call, caller: Caller) -> bytes:
        served = self._handlers.get(type(call.method))
        unbound_before = caller.unbound
        await self._adopt(call, caller)
        if served is None or served.status is not Status.DONE:
            self._store.compat.record(call.name, caller.layer, _client_name(caller.client))
        if call.error is not None:
            raise RpcError(call.error.error_code, call.error.error_message)
        layer = tl.supported_layer(caller.layer or tl.LAYER)
        if served is None or not _in_layer(served.name, layer):
            raise bad_request("METHOD_NOT_SUPPORTED")
        await self._authorize(served, caller)
        context = Context(self._store, self._config, self._clock, self._sessions, self._codes, caller, call)
        result = await served.function(context, call.method)
        if unbound_before and not caller.unbound:
            await self._keep_layer(caller)
        return tl.write_result(result, served.result, tl.supported_layer(caller.layer or tl.LAYER))

    async def _adopt(self, call: Call, caller: Caller) -> None:
        """Takes over what the wrappers say; a change is kept with the permanent key."""
        changed = False
        if call.client is not None and call.client != caller.client:
            caller.client = call.client
            changed = True
        if call.layer is not None:
            layer = min(max(call.layer, 1), _MAX_LAYER)
            changed = changed or layer != caller.layer
            caller.layer = layer
        if changed and not caller.unbound:
            await self._keep_layer(caller)

    async def _keep_layer(self, caller: Caller) -> None:
        if caller.layer:
            await self._store.auth_keys.set_layer(caller.auth_key_id, caller.layer, caller.client)

    async def _recall_layer(self, caller: Caller) -> None:
        record = await self._store.auth_keys.get(caller.auth_key_id)
        if record is not None:
            caller.layer, caller.client = record.layer, record.client

    async def _authorize(self, served: Handler, caller: Caller) -> None:
        """Finds whose account it is; a method that needs one is refused without."""
        if caller.unbound:
            caller.user_id = None
            if not served.before_login or served.name in _OF_A_PERMANENT_KEY:
                raise unauthorized("AUTH_KEY_PERM_EMPTY")
            return
        await self._find_account(caller)
        if caller.user_id is not None:
            with contextlib.suppress(Unavailable):
                now = int(self._clock.time())
                await self._store.accounts.touch(caller.auth_key_id, now, caller.ip, caller.client)
        elif not served.before_login:
            raise unauthorized()

    async def _find_account(self, caller: Caller) -> None:
        """Asks the store whose key it is; sessions learn of a change that reached them no other way."""
        authorization = await self._store.accounts.authorization(caller.auth_key_id)
        user_id = None if authorization is None else authorization.user_id
        if user_id == caller.user_id:
            return
        await self._sessions.noticed(caller.auth_key_id, user_id)
        caller.user_id = user_id


_OF_A_PERMANENT_KEY: Final = frozenset(
    (
        "auth.cancelCode",
        "auth.importAuthorization",
        "auth.logOut",
        "auth.resendCode",
        "auth.sendCode",
        "auth.signIn",
        "auth.signUp",
    )
)
"""A login is bound to the key it is made with: with a temporary one it would be lost a day later."""


def _label(error: RpcError) -> str:
    """Returns what is counted for a refused call."""
    if error is BUG:
        return "failed"
    if error is UNAVAILABLE:
        return "unavailable"
    return "limited" if error.code == FLOOD else "refused"


@cache
def _in_layer(method: str, layer: int) -> bool:
    """Tells whether the layer can have the method: the answer to a newer one could not be written in it."""
    return any(variant.first <= layer for variant in schema().by_name[FUNCTION, method])


def _client_name(client: ClientInfo) -> str:
    """Returns what tells clients apart and does not identify a device."""
    return f"{client.app_version} (api_id {client.api_id})" if client.api_id else ""


def _code_sender(config: RpcConfig) -> CodeSender:
    if config.code_webhook is not None:
        return WebhookCodeSender(config.code_webhook)
    return LogCodeSender()
