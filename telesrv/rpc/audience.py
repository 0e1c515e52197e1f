"""Telling others at once what changed about an account: those who have it before their eyes.

What is told here is not stored: who is away learns it with the next answer that shows the account. It goes
to accounts that have sessions now and know the account by their address book or by a chat of late, each as
their rights have it, and to a bounded number of them.

Spec: Working with Updates; User status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from telesrv.domain.privacy import PrivacyKey
from telesrv.domain.users import Seen, UserView
from telesrv.rpc.convert.users import status_to_tl, usernames_to_tl
from telesrv.tl import types

if TYPE_CHECKING:
    from telesrv.rpc.context import SessionControl
    from telesrv.store import Store

Told = Callable[[UserView], "types.TypeUpdate | None"]


async def tell(store: Store, sessions: SessionControl, user_id: int, update_of: Told) -> None:
    """Pushes to each viewer what *update_of* makes of their view of the account; None: nothing."""
    viewers = await sessions.with_sessions(await store.users.audience(user_id))
    for viewer, view in (await store.users.seen_by(user_id, viewers)).items():
        update = update_of(view)
        if update is not None:
            await sessions.push_transient(viewer, update)


async def tell_presence(
    store: Store, sessions: SessionControl, user_id: int, now: int, *, roughly: bool = False
) -> None:
    """Tells when the account is or was online, to those who may know it.

    Args:
        roughly: tell the others too what they may know; only needed when the rules changed.
    """

    def update(view: UserView) -> types.TypeUpdate | None:
        exact = view.presence.seen is Seen.EXACTLY and view.may(PrivacyKey.STATUS_TIMESTAMP)
        if view.blocked or not (exact or roughly):
            return None
        return types.UpdateUserStatus(user_id=user_id, status=status_to_tl(view.presence, now))

    await tell(store, sessions, user_id, update)


async def tell_name(store: Store, sessions: SessionControl, user_id: int) -> None:
    """Tells the names of the account; who has it in the address book keeps their own."""
    await tell(
        store,
        sessions,
        user_id,
        lambda view: types.UpdateUserName(
            user_id=user_id,
            first_name=view.first_name,
            last_name=view.last_name,
            usernames=usernames_to_tl(view),
        ),
    )


async def tell_phone(store: Store, sessions: SessionControl, user_id: int) -> None:
    """Tells the phone number of the account to those who may see it, and the others that they do not."""
    await tell(
        store,
        sessions,
        user_id,
        lambda view: types.UpdateUserPhone(
            user_id=user_id, phone=view.user.phone if view.phone_visible else ""
        ),
    )
