"""What the server stands on when nothing else is given: its own PostgreSQL and Valkey, and the schema in it.

A leaf: of the project it imports `config` alone, and only to run by itself. The parent process, the
operator's commands, the load tests and the tests use it; what serves clients does not.
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
