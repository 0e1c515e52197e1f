"""Fields that kept their name and changed their type: one pair of functions for each pair of types.

`up` makes the newest layer's value of an older one's, `down` the older one's of the newest. Neither is given
None. Beside them stand the constructors that all changed in one way, for `upgrade` and `downgrade` alike.

*Spec: TL Language*
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from telesrv.tl import buttons
from telesrv.tl.defaults import default
from telesrv.tl.schema import Field

Convert = Callable[[Any], Any]


def _types() -> Any:
    from telesrv.tl import types  # noqa: PLC0415 - the classes load when the first of them is needed

    return types


def _vote_up(vote: Any) -> Any:
    types = _types()
    peer = types.PeerUser(user_id=vote.user_id)
    if isinstance(vote, types.MessageUserVote):
        return types.MessagePeerVote(peer=peer, option=vote.option, date=vote.date)
    if isinstance(vote, types.MessageUserVoteMultiple):
        return types.MessagePeerVoteMultiple(peer=peer, options=vote.options, date=vote.date)
    return types.MessagePeerVoteInputOption(peer=peer, date=vote.date)


def _vote_down(vote: Any) -> Any:
    types = _types()
    user_id = user_of(vote.peer)
    if isinstance(vote, types.MessagePeerVote):
        return types.MessageUserVote(user_id=user_id, option=vote.option, date=vote.date)
    if isinstance(vote, types.MessagePeerVoteMultiple):
        return types.MessageUserVoteMultiple(user_id=user_id, options=vote.options, date=vote.date)
    return types.MessageUserVoteInputOption(user_id=user_id, date=vote.date)


def user_of(peer: Any) -> int:
    """Returns the user id of a peer; 0 when it is no user, or None."""
    return getattr(peer, "user_id", 0)


def _peer(user_id: int) -> Any:
    return _types().PeerUser(user_id=user_id)


def _stories_up(stories: Any) -> Any:
    return _types().PeerStories(
        peer=_peer(stories.user_id), max_read_id=stories.max_read_id, stories=stories.stories
    )


def _stories_down(stories: Any) -> Any:
    return _types().UserStories(
        user_id=user_of(stories.peer), max_read_id=stories.max_read_id, stories=stories.stories
    )


def _group_call_message_up(message: Any) -> Any:
    return _types().GroupCallMessage(id=0, from_id=_peer(0), date=0, message=message)


def _privacy_up(private: bool) -> Any:
    types = _types()
    return types.PaidReactionPrivacyAnonymous() if private else types.PaidReactionPrivacyDefault()


def _option_index(option: bytes) -> int:
    """Poll options were free bytes, by custom the index in digits or as one byte."""
    if option.removeprefix(b"-").isdigit() and len(option) < 12 and -(1 << 31) <= int(option) < 1 << 31:
        return int(option)
    return option[0] if option else 0


def _text(value: str) -> Any:
    return _types().TextWithEntities(text=value, entities=[])


def _plain(value: Any) -> str:
    text: str = value.text
    return text


def _stars(amount: int) -> Any:
    return _types().StarsAmount(amount=amount, nanos=0)


def input_peer(user: Any) -> Any:
    """Returns an input user as the input peer that means the same."""
    types = _types()
    if isinstance(user, types.InputUser):
        return types.InputPeerUser(user_id=user.user_id, access_hash=user.access_hash)
    if isinstance(user, types.InputUserFromMessage):
        return types.InputPeerUserFromMessage(peer=user.peer, msg_id=user.msg_id, user_id=user.user_id)
    return types.InputPeerSelf() if isinstance(user, types.InputUserSelf) else types.InputPeerEmpty()


def input_user(peer: Any) -> Any:
    """Returns an input peer as the input user that means the same; an empty one when it is no user."""
    types = _types()
    if isinstance(peer, types.InputPeerUser):
        return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)
    if isinstance(peer, types.InputPeerUserFromMessage):
        return types.InputUserFromMessage(peer=peer.peer, msg_id=peer.msg_id, user_id=peer.user_id)
    return types.InputUserSelf() if isinstance(peer, types.InputPeerSelf) else types.InputUserEmpty()


def _each(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


# (older type, newest type) -> (up, down)
_PAIRS: dict[tuple[str, str], tuple[Convert, Convert]] = {
    ("string", "TextWithEntities"): (_text, _plain),
    ("int", "double"): (float, lambda value: round(value) if 0 <= value < 1 << 31 else 0),
    ("int", "string"): (str, lambda value: int(value) if value.isdecimal() else 0),
    ("Bool", "true"): (bool, bool),
    ("int", "PeerColor"): (lambda color: _types().PeerColor(color=color), lambda value: value.color or 0),
    ("int", "RecentStory"): (
        lambda max_id: _types().RecentStory(max_id=max_id),
        lambda story: story.max_id or 0,
    ),
    ("long", "StarsAmount"): (_stars, lambda value: value.amount),
    ("long", "Peer"): (_peer, user_of),
    ("Vector<long>", "Vector<Peer>"): (_each(_peer), _each(user_of)),
    ("Bool", "PaidReactionPrivacy"): (
        _privacy_up,
        lambda value: value.CONSTRUCTOR_NAME == "paidReactionPrivacyAnonymous",
    ),
    ("Vector<bytes>", "Vector<int>"): (_each(_option_index), _each(lambda index: b"%d" % index)),
    ("Vector<MessageUserVote>", "Vector<MessagePeerVote>"): (_each(_vote_up), _each(_vote_down)),
    ("Vector<KeyboardButtonRow>", "Vector<KeyboardInlineButtonRow>"): (
        _each(buttons.inline_row_up),
        _each(buttons.inline_row_down),
    ),
    ("InputUser", "InputPeer"): (input_peer, input_user),
    ("UserStories", "PeerStories"): (_stories_up, _stories_down),
    ("TextWithEntities", "GroupCallMessage"): (_group_call_message_up, lambda value: value.message),
    ("MessageExtendedMedia", "Vector<MessageExtendedMedia>"): (
        lambda value: [value],
        lambda values: values[0],
    ),
}


def up(old: Field, new: Field) -> Convert:
    """Returns the conversion of an older field, absent ones included; KeyError when none is written down."""
    convert = _PAIRS[old.type, new.type][0]
    if not old.optional:
        return convert
    absent: Callable[[], Any]
    if new.type == "true":
        absent = bool
    elif new.optional:
        absent = _none
    else:
        absent = default(new.type)
    return lambda value: absent() if value is None else convert(value)


def down(new: Field, old: Field, layer: int) -> Convert:
    """Returns the conversion to an older field, absent ones included; KeyError when none is written down."""
    convert = _PAIRS[old.type, new.type][1]
    if new.type == "true":
        return (lambda value: value or None) if old.optional else convert
    absent: Callable[[], Any] = _none if old.optional else default(old.type, layer)
    return lambda value: absent() if value is None or value == [] else convert(value)


def _none() -> None:
    return None


REPLY_TO: Final = (
    "messages.sendMessage",
    "messages.sendMedia",
    "messages.sendMultiMedia",
    "messages.sendInlineBotResult",
    "messages.requestWebView",
    "messages.prolongWebView",
    "messages.saveDraft",
    "messages.sendScreenshotNotification",
    "draftMessage",
)
"""What names the message that it answers by reply_to, and did so by reply_to_msg_id before."""

INPUT_PEER: Final = (
    "inputInvoiceStarGift",
    "inputMediaStory",
    "inputReplyToStory",
    "stories.exportStoryLink",
    "stories.getPinnedStories",
    "stories.getStoriesByID",
    "stories.incrementStoryViews",
    "stories.readStories",
    "stories.report",
    "stories.sendReaction",
)
"""What names somebody by an InputPeer, and did so by an InputUser before."""

PEER: Final = (
    "messageMediaStory",
    "messageReplyStoryHeader",
    "updateMessagePollVote",
    "updateReadStories",
    "updateSentStoryReaction",
    "updateStory",
    "webPageAttributeStory",
)
"""What names somebody by a Peer, and did so by a user_id before."""
