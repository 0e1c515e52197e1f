"""Which operating system user the embedded servers run as, and what that user can reach.

PostgreSQL refuses to run as root. An ordinary user runs both servers as itself; root drops to an unprivileged
account, which must be able to walk to the programs and to the data.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telesrv.platform.errors import PlatformError

CANDIDATES: Final = ("telesrv", "nobody")
"""Accounts that root drops to, best first: one of its own where the operator made it, else the one that is
always there."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its group; `drop` says whether to change to it at all."""

    uid: int
    gid: int
    drop: bool

    def give(self, path: Path) -> None:
        """Makes the account the owner of `path`."""
        if self.drop:
            os.chown(path, self.uid, self.gid)

    def can_walk_to(self, path: Path) -> bool:
        """Whether the account may pass every existing directory on the way to `path`, and through it."""
        if not self.drop:
            return True
        resolved = path.resolve()
        return all(self._may_pass(step) for step in (resolved, *resolved.parents) if step.exists())

    def _may_pass(self, path: Path) -> bool:
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def choose(existing_data: Path | None = None) -> Account:
    """The account for the embedded servers: the caller, or for root the owner of `existing_data`
    or a candidate.

    Raises:
        PlatformError: root has no account to drop to.
    """
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), drop=False)
    if existing_data is not None and existing_data.exists() and existing_data.stat().st_uid != 0:
        status = existing_data.stat()
        return Account(status.st_uid, status.st_gid, drop=True)
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, drop=True)
    raise PlatformError(
        "PostgreSQL does not run as root and there is no account to drop to; make one "
        "(useradd --system telesrv), start the server as an ordinary user, "
        "or set TELESRV_POSTGRES_DSN and TELESRV_REDIS_URL"
    )
