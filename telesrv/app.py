"""The command `telesrv`: settings, then the supervisor until a signal ends it."""

from __future__ import annotations

import sys

import uvloop

from telesrv.config import ConfigError, load_settings
from telesrv.logs import configure_logging
from telesrv.platform import PlatformError
from telesrv.supervisor import supervise


def main() -> None:
    """Runs the server: exit code 0 after a signal, 2 for a setting that cannot be used, 1 for a failed
    start."""
    configure_logging()
    try:
        uvloop.run(supervise(load_settings()))
    except ConfigError as error:
        sys.exit(_complain(str(error), 2))
    except (PlatformError, OSError) as error:
        sys.exit(_complain(str(error), 1))


def _complain(text: str, code: int) -> int:
    print(f"telesrv: {text}", file=sys.stderr)
    return code
