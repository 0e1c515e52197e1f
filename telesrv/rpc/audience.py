"""Telling others at once when an account is or was online: those who have it before their eyes.

What is told here is not stored: who is away learns it with the next answer that shows the account. It goes
to accounts that have sessions now and know the account by their address book or by a chat of late, each as
their rights have it, and to a bounded number of them. What lasts, names and phone numbers, is in the logs.

*Spec: Working with Updates; User status*
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from telesrv.domain.errors import Unavailable
from telesrv.domain.privacy import PrivacyKey
from telesrv.domain.users import Seen
from telesrv.rpc.convert.users import status_to_tl
from telesrv.tl import types

if TYPE_CHECKING:
    from telesrv.rpc.context import SessionControl
    from telesrv.store import Store


async def show_active(store: Store, sessions: SessionControl, user_id: int, now: int) -> None:
    """Has the account be online for a minute at least, for it has sent something: some clients never report
    that they are. What others have waiting until it is online is sent. Reading is no such thing.

    It raises nothing for a server that is away: what the account did is done, whatever becomes of this.
    """
    with suppress(Unavailable):
        if await store.presence.active(user_id):
            await store.until_online.came(user_id)
            await tell_presence(store, sessions, user_id, now)


async def set_offline(store: Store, sessions: SessionControl, user_id: int, at: int) -> None:
    """Has the account be offline since *at*, until it does something again at whatever process.

    Raises:
        Unavailable: a server is away.
    """
    await store.presence.set_offline(user_id, at)
    await sessions.went_offline(user_id)


async def tell_presence(
    store: Store, sessions: SessionControl, user_id: int, now: int, *, roughly: bool = False
) -> None:
    """Tells when the account is or was online, to those who may know it.

    Args:
        roughly: tell the others too what they may know; only needed when the rules changed.
    """

    viewers = await sessions.with_sessions(await store.users.audience(user_id))
    for viewer, view in (await store.users.seen_by(user_id, viewers)).items():
        exact = view.presence.seen is Seen.EXACTLY and view.may(PrivacyKey.STATUS_TIMESTAMP)
        if view.blocked or not (exact or roughly):
            continue
        status = types.UpdateUserStatus(user_id=user_id, status=status_to_tl(view.presence, now))
        await sessions.push_transient(viewer, status)
