"""Messages, as their owner's clients see them.

*Spec: Working with Updates; Message replies*
"""

from __future__ import annotations

from collections.abc import Iterable

from telesrv.domain.actions import Action, ActionKind
from telesrv.domain.messages import FROM_SCHEDULED, ForwardHeader, MessageBox, ReplyTo, SentMessage
from telesrv.domain.peers import PeerType
from telesrv.rpc.convert.entities import entities_to_tl, mentioned_user_ids
from telesrv.rpc.convert.peers import peer_to_tl
from telesrv.tl import types


def message_to_tl(box: MessageBox) -> types.Message | types.MessageService:
    """Returns the owner's copy of a message, or of a service message, under the owner's own id for it.

    Its author always stands in from_id, so that no client has to guess it from the chat.

    *Spec: Message; Service messages*
    """
    if box.action is not None:
        return types.MessageService(
            id=box.box_id,
            out=box.outgoing,
            silent=box.silent,
            from_id=types.PeerUser(user_id=box.from_user_id),
            peer_id=peer_to_tl(box.peer),
            reply_to=None if box.reply_to is None else reply_to_tl(box.reply_to),
            date=box.date,
            action=action_to_tl(box.action),
            ttl_period=_ttl_period(box),
        )
    return types.Message(
        id=box.box_id,
        out=box.outgoing,
        silent=box.silent,
        noforwards=box.noforwards,
        media_unread=box.media_unread,
        from_id=types.PeerUser(user_id=box.from_user_id),
        peer_id=peer_to_tl(box.peer),
        reply_to=None if box.reply_to is None else reply_to_tl(box.reply_to),
        date=box.date,
        message=box.text,
        entities=entities_to_tl(box.entities),
        edit_date=box.edit_date,
        pinned=box.pinned,
        from_scheduled=bool(box.flags & FROM_SCHEDULED),
        ttl_period=_ttl_period(box),
        fwd_from=None if box.fwd is None else fwd_to_tl(box.fwd),
    )


def action_to_tl(action: Action) -> types.TypeMessageAction:
    """Returns what a service message tells of.

    *Spec: MessageAction*
    """
    if action.kind is ActionKind.PIN_MESSAGE:
        return types.MessageActionPinMessage()
    if action.kind is ActionKind.CONTACT_SIGN_UP:
        return types.MessageActionContactSignUp()
    return types.MessageActionSetMessagesTTL(
        period=action.period_s, auto_setting_from=action.auto_user_id or None
    )


def service_to_tl(sent: SentMessage | None) -> list[types.TypeUpdate]:
    """Returns the update that shows a service message to the session whose call it tells of, if one does.

    *Spec: Working with Updates*
    """
    if sent is None:
        return []
    return [types.UpdateNewMessage(message=message_to_tl(sent.box), pts=sent.pts, pts_count=sent.pts_count)]


def fwd_to_tl(fwd: ForwardHeader) -> types.MessageFwdHeader:
    """Returns where a message was first written.

    *Spec: messages.forwardMessages*
    """
    return types.MessageFwdHeader(
        date=fwd.date,
        from_id=types.PeerUser(user_id=fwd.from_user_id) if fwd.from_user_id else None,
        from_name=fwd.from_name,
        saved_from_peer=None if fwd.saved_from is None else peer_to_tl(fwd.saved_from),
        saved_from_msg_id=fwd.saved_from_box_id or None,
    )


def reply_to_tl(reply: ReplyTo) -> types.MessageReplyHeader:
    """Returns what a message answers, in the owner's ids.

    *Spec: Message replies*
    """
    quoted = reply.quote_text is not None
    return types.MessageReplyHeader(
        reply_to_msg_id=reply.box_id,
        quote=quoted,
        quote_text=reply.quote_text,
        quote_entities=entities_to_tl(reply.quote_entities) if quoted else None,
        quote_offset=reply.quote_offset if quoted else None,
    )


def sent_to_tl(sent: SentMessage) -> types.UpdateShortSentMessage:
    """Returns what the sender is told of the own message: all that the client does not know yet.

    *Spec: Working with Updates*
    """
    return types.UpdateShortSentMessage(
        out=sent.box.outgoing,
        id=sent.box.box_id,
        pts=sent.pts,
        pts_count=sent.pts_count,
        date=sent.box.date,
        entities=entities_to_tl(sent.box.entities),
        ttl_period=_ttl_period(sent.box),
    )


def _ttl_period(box: MessageBox) -> int | None:
    return None if box.expires_at is None else box.expires_at - box.date


def fwd_user_ids(fwd: ForwardHeader) -> set[int]:
    """Returns every account that the header of a forward shows."""
    shown = {fwd.from_user_id} if fwd.from_user_id else set()
    if fwd.saved_from is not None and fwd.saved_from.type is PeerType.USER:
        shown.add(fwd.saved_from.id)
    return shown


def user_ids_of(boxes: Iterable[MessageBox]) -> set[int]:
    """Returns every account that the messages show: chat, author and mentions."""
    shown: set[int] = set()
    for box in boxes:
        shown.add(box.from_user_id)
        if box.peer.type is PeerType.USER:
            shown.add(box.peer.id)
        shown.update(mentioned_user_ids(box.entities))
        if box.fwd is not None:
            shown.update(fwd_user_ids(box.fwd))
        if box.action is not None and box.action.auto_user_id:
            shown.add(box.action.auto_user_id)
        if box.reply_to is not None:
            shown.update(mentioned_user_ids(box.reply_to.quote_entities))
    return shown
