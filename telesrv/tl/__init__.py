"""TL: the schema of every layer, its generated classes, and their bytes.

`read` takes the bytes of any layer and gives instances of the newest layer's classes (`types`, `functions`,
`mt`); `write` gives the bytes of the layer it is told. Importing this package loads nothing; each part loads
when it is used.

*Spec: TL Language*
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telesrv.tl import functions as functions
    from telesrv.tl import mt as mt
    from telesrv.tl import types as types
    from telesrv.tl.base import TLFunction as TLFunction
    from telesrv.tl.base import TLObject as TLObject
    from telesrv.tl.errors import LimitExceeded as LimitExceeded
    from telesrv.tl.errors import ProtocolError as ProtocolError
    from telesrv.tl.errors import TLError as TLError
    from telesrv.tl.errors import TrailingBytes as TrailingBytes
    from telesrv.tl.errors import Truncated as Truncated
    from telesrv.tl.errors import UnknownConstructor as UnknownConstructor
    from telesrv.tl.limits import DEFAULT_LIMITS as DEFAULT_LIMITS
    from telesrv.tl.limits import Limits as Limits
    from telesrv.tl.reader import read as read
    from telesrv.tl.reader import read_prefix as read_prefix
    from telesrv.tl.reader import read_result as read_result
    from telesrv.tl.schema import LAYER as LAYER
    from telesrv.tl.schema import MIN_LAYER as MIN_LAYER
    from telesrv.tl.schema import name_of as name_of
    from telesrv.tl.writer import supported_layer as supported_layer
    from telesrv.tl.writer import write as write
    from telesrv.tl.writer import write_bytes as write_bytes
    from telesrv.tl.writer import write_result as write_result

_HOMES = {
    "base": ("TLFunction", "TLObject"),
    "errors": (
        "LimitExceeded",
        "ProtocolError",
        "TLError",
        "TrailingBytes",
        "Truncated",
        "UnknownConstructor",
    ),
    "limits": ("DEFAULT_LIMITS", "Limits"),
    "reader": ("read", "read_prefix", "read_result"),
    "schema": ("LAYER", "MIN_LAYER", "name_of"),
    "writer": ("supported_layer", "write", "write_bytes", "write_result"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("types", "functions", "mt"):
        return import_module(f"telesrv.tl.{name}")
    if name not in _HOME:
        raise AttributeError(f"telesrv.tl has no {name}")
    value = globals()[name] = getattr(import_module(f"telesrv.tl.{_HOME[name]}"), name)
    return value
