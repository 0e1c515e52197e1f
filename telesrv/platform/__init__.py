"""What the server stands on when nothing else is given: its own PostgreSQL and Valkey, and the schema in it.

A leaf: it imports `config` and `clock` at most, and `app`, `admin` and the tests may import it.
"""

from telesrv.platform.connections import connection_limit, connections_each
from telesrv.platform.embedded import EmbeddedServers, Endpoints, discover
from telesrv.platform.errors import PlatformError
from telesrv.platform.lock import DataDirInUse, DataDirLock
from telesrv.platform.migrate import MigrationError, migrate, pending
from telesrv.platform.process import launcher

__all__ = [
    "DataDirInUse",
    "DataDirLock",
    "EmbeddedServers",
    "Endpoints",
    "MigrationError",
    "PlatformError",
    "connection_limit",
    "connections_each",
    "discover",
    "launcher",
    "migrate",
    "pending",
]
