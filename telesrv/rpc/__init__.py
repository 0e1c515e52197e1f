"""RPC: from the bytes of a call to the bytes of its answer.

*Spec: Calling methods*
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telesrv.rpc.call import Call
    from telesrv.rpc.context import Caller, Context, RpcConfig, SessionControl
    from telesrv.rpc.dispatch import Dispatcher, Outcome
    from telesrv.rpc.errors import RpcError

__all__ = ["Call", "Caller", "Context", "Dispatcher", "Outcome", "RpcConfig", "RpcError", "SessionControl"]

_HOMES = {
    "Call": "call",
    "Caller": "context",
    "Context": "context",
    "Dispatcher": "dispatch",
    "Outcome": "dispatch",
    "RpcConfig": "context",
    "RpcError": "errors",
    "SessionControl": "context",
}


def __getattr__(name: str) -> object:
    """Loads the dispatcher only when it is asked for: the commands of the operator do not need it."""
    import importlib  # noqa: PLC0415

    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"telesrv.rpc.{_HOMES[name]}"), name)
