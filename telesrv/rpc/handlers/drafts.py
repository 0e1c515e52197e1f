"""Drafts of the caller.

*Spec: Message drafts*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from telesrv.domain.drafts import Draft
from telesrv.domain.messages import ReplyTo
from telesrv.domain.peers import Peer, PeerType
from telesrv.rpc import fields
from telesrv.rpc.composing import draft_text, maybe_quote, refuse_unsupported, replied_to
from telesrv.rpc.convert.drafts import draft_to_tl, draft_user_ids
from telesrv.rpc.convert.peers import peer_of, peer_to_tl
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import updates_to_tl
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

MAX_URL: Final = 2_048


@handler(functions.messages.SaveDraft)
async def save_draft(ctx: Context, request: functions.messages.SaveDraft) -> bool:
    """Keeps what the caller began to write in a chat, for all devices; an empty text clears it.

    Raises:
        RpcError: 400 MESSAGE_TOO_LONG, ENTITY_BOUNDS_INVALID, REPLY_MESSAGE_ID_INVALID, QUOTE_TEXT_INVALID,
            or what is not supported by its name, as in messages.sendMessage.

    *Spec: messages.saveDraft*
    """
    refuse_unsupported(request)
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    formatted = draft_text(ctx, request.message, request.entities)
    draft = Draft(
        date=ctx.now(),
        text=formatted.text,
        entities=formatted.entities,
        no_webpage=request.no_webpage,
        invert_media=request.invert_media,
        reply_to=_reply_to(ctx, request.reply_to, peer),
        webpage=_webpage(request.media),
    )
    if not draft.empty and (await ctx.store.users.get(peer.id)) is None:
        raise bad_request("PEER_ID_INVALID")
    await ctx.store.drafts.save(ctx.user_id, peer, draft)
    return True


@handler(functions.messages.GetAllDrafts)
async def get_all_drafts(ctx: Context, request: functions.messages.GetAllDrafts) -> types.Updates:
    """Answers the drafts of all chats.

    *Spec: messages.getAllDrafts*
    """
    drafts = await ctx.store.drafts.all(ctx.user_id)
    updates: list[types.TypeUpdate] = []
    shown: set[int] = set()
    for peer, draft in drafts.items():
        updates.append(types.UpdateDraftMessage(peer=peer_to_tl(peer), draft=draft_to_tl(draft)))
        shown.update(draft_user_ids(draft))
        if peer.type is PeerType.USER:
            shown.add(peer.id)
    return await updates_to_tl(ctx, updates, shown)


@handler(functions.messages.ClearAllDrafts)
async def clear_all_drafts(ctx: Context, request: functions.messages.ClearAllDrafts) -> bool:
    """Clears the drafts of all chats.

    *Spec: messages.clearAllDrafts*
    """
    await ctx.store.drafts.clear_all(ctx.user_id)
    return True


def _reply_to(ctx: Context, reply: types.TypeInputReplyTo | None, peer: Peer) -> ReplyTo | None:
    """Returns what is to be answered. That the message is there is checked when the draft is sent."""
    asked = replied_to(ctx, reply, peer)
    if asked is None:
        return None
    quote = maybe_quote(ctx, asked, as_typed=True)
    if quote is None:
        return ReplyTo(asked.reply_to_msg_id)
    return ReplyTo(asked.reply_to_msg_id, quote.text, quote.entities, asked.quote_offset)


def _webpage(media: types.TypeInputMedia | None) -> dict[str, Any] | None:
    if media is None or isinstance(media, types.InputMediaEmpty):
        return None
    if not isinstance(media, types.InputMediaWebPage):
        raise bad_request("MEDIA_INVALID")
    url = fields.line(media.url)
    if not url or len(url) > MAX_URL:
        raise bad_request("WEBPAGE_URL_INVALID")
    forced = {"force_large_media": media.force_large_media, "force_small_media": media.force_small_media}
    return {"url": url} | {name: True for name, value in forced.items() if value}
