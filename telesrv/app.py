"""The command `telesrv`: settings, then the supervisor until a signal ends it."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version

import uvloop

from telesrv.config import ConfigError, load_settings
from telesrv.logs import configure_logging
from telesrv.platform import PlatformError
from telesrv.supervisor import supervise


def main() -> None:
    """Runs the server: exit code 0 after a signal, 2 for an argument or a setting that cannot be used, 1 for
    a failed start."""
    _arguments()
    configure_logging()
    try:
        uvloop.run(supervise(load_settings()))
    except ConfigError as error:
        sys.exit(_complain(str(error), 2))
    except (PlatformError, OSError) as error:
        sys.exit(_complain(str(error), 1))


def _arguments() -> None:
    """Refuses every argument but those that only ask: the settings are the environment's."""
    parser = argparse.ArgumentParser(
        prog="telesrv",
        description="A chat server that Telegram clients can talk to; Ctrl-C or SIGTERM stops it.",
        epilog="Settings are TELESRV_... in the environment or in .env; README.md lists them. "
        "`telesrv-admin check-config` tells whether it can start with them.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"telesrv {version('telesrv')}")
    parser.parse_args()


def _complain(text: str, code: int) -> int:
    print(f"telesrv: {text}", file=sys.stderr)
    return code
