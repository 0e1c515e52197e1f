"""Events of chats marked as unread by hand.

*Spec: updateDialogUnreadMark*
"""

from __future__ import annotations

from telesrv.domain.messages import MessageBox
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.updates import Views, converts, event_peer
from telesrv.tl import types


@converts(EventKind.DIALOG_UNREAD_MARK)
def _dialog_unread_mark(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    unread = bool((event.payload or {}).get("unread"))
    return [types.UpdateDialogUnreadMark(unread=unread, peer=types.DialogPeer(peer=event_peer(event)))]
