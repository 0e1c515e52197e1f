"""Drafts, and the events that tell of them.

*Spec: Message drafts*
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from telesrv.domain.drafts import Draft, draft_from_json
from telesrv.domain.messages import MessageBox
from telesrv.domain.updates import Event, EventKind
from telesrv.rpc.convert.entities import entities_to_tl, mentioned_user_ids
from telesrv.rpc.convert.updates import Views, converts, event_peer, names
from telesrv.tl import types


def draft_to_tl(draft: Draft) -> types.DraftMessage:
    """Returns what the owner began to write.

    *Spec: Message drafts*
    """
    reply, webpage = draft.reply_to, draft.webpage
    return types.DraftMessage(
        no_webpage=draft.no_webpage,
        invert_media=draft.invert_media,
        reply_to=None
        if reply is None
        else types.InputReplyToMessage(
            reply_to_msg_id=reply.box_id,
            quote_text=reply.quote_text,
            quote_entities=entities_to_tl(reply.quote_entities),
            quote_offset=reply.quote_offset,
        ),
        message=draft.text,
        entities=entities_to_tl(draft.entities),
        media=None
        if webpage is None
        else types.InputMediaWebPage(
            url=webpage["url"],
            force_large_media=webpage.get("force_large_media", False),
            force_small_media=webpage.get("force_small_media", False),
            optional=True,
        ),
        date=draft.date,
    )


def draft_user_ids(draft: Draft) -> Iterable[int]:
    """Returns the accounts that a draft mentions by name."""
    quoted = () if draft.reply_to is None else draft.reply_to.quote_entities
    return mentioned_user_ids((*draft.entities, *quoted))


@converts(EventKind.DRAFT)
def _draft(event: Event, box: MessageBox | None, views: Views) -> list[types.TypeUpdate]:
    draft: types.TypeDraftMessage
    if event.payload:
        draft = draft_to_tl(draft_from_json(event.payload))
    else:
        draft = types.DraftMessageEmpty(date=event.date)
    return [types.UpdateDraftMessage(peer=event_peer(event), draft=draft)]


@names(EventKind.DRAFT)
def _named(payload: Mapping[str, Any]) -> Iterable[int]:
    return draft_user_ids(draft_from_json(payload))
