"""Messages, dialogs and events become what clients of every layer can read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from telesrv import tl
from telesrv.domain.dialogs import Dialog, DialogPage
from telesrv.domain.entities import KINDS, MAX_ARGUMENT_BYTES, MAX_ENTITIES, EntitiesTooLong
from telesrv.domain.messages import (
    MAX_PAGE,
    MAX_TEXT_CODE_POINTS,
    Entity,
    MessageBox,
    ReplyTo,
    SentMessage,
)
from telesrv.domain.peers import Peer
from telesrv.domain.text import MAX_QUOTE_CODE_POINTS, FormattedText, clean_text, utf16_length
from telesrv.domain.updates import Event, EventKind, UpdatesState
from telesrv.domain.users import User, UserView
from telesrv.gateway.limits import GatewayLimits
from telesrv.mtproto.session import SessionLimits
from telesrv.rpc.convert.dialogs import dialog_to_tl, dialog_user_ids, dialogs_hash, list_hash, messages_hash
from telesrv.rpc.convert.entities import entities_from_tl, entities_to_tl, mentioned_user_ids
from telesrv.rpc.convert.messages import message_to_tl, sent_to_tl, user_ids_of
from telesrv.rpc.convert.updates import event_updates, event_user_ids, pushed_updates, state_to_tl
from telesrv.tl import types

LAYERS = [152, 158, 166, 181, 192, 214, 227, 229]
OWNER, FRIEND, THIRD = 1_000_001, 1_000_002, 1_000_003


def a_box(**changes: object) -> MessageBox:
    fields: dict[str, object] = {
        "owner_user_id": OWNER,
        "box_id": 7,
        "peer": Peer.user(FRIEND),
        "from_user_id": FRIEND,
        "outgoing": False,
        "message_id": 1 << 50,
        "date": 1_700_000_000,
        "text": "hi there",
    }
    return MessageBox(**{**fields, **changes})  # type: ignore[arg-type]


def an_event(kind: EventKind, **changes: object) -> Event:
    fields: dict[str, object] = {
        "user_id": OWNER,
        "pts": 12,
        "pts_count": 1,
        "kind": kind,
        "date": 1_700_000_100,
        "peer": Peer.user(FRIEND),
        "box_id": 7,
    }
    return Event(**{**fields, **changes})  # type: ignore[arg-type]


VIEWS = {
    FRIEND: UserView(User(FRIEND, "15550001", "Ada", "L", username="ada_l"), OWNER),
    OWNER: UserView(User(OWNER, "15550002", "Me"), OWNER),
}
RICH = a_box(
    text="0123456789",
    entities=(
        Entity("bold", 0, 2),
        Entity("textUrl", 2, 2, "http://x.y"),
        Entity("mentionName", 4, 2, THIRD),
    ),
    reply_to=ReplyTo(3, "45", (Entity("mentionName", 0, 1, THIRD + 1),), 4),
    silent=True,
    noforwards=True,
    edit_date=1_700_000_050,
)


def test_a_message_is_the_owners_copy() -> None:
    message = message_to_tl(RICH)
    assert (message.id, message.out, message.silent, message.noforwards) == (7, False, True, True)
    assert message.peer_id == types.PeerUser(user_id=FRIEND) == message.from_id
    assert isinstance(message.reply_to, types.MessageReplyHeader)
    assert (message.reply_to.reply_to_msg_id, message.reply_to.quote, message.reply_to.quote_offset) == (
        3,
        True,
        4,
    )
    assert message_to_tl(a_box()).entities is None


def test_every_account_shown_is_named() -> None:
    assert user_ids_of([RICH]) == {FRIEND, THIRD, THIRD + 1}
    assert user_ids_of([a_box(outgoing=True, from_user_id=OWNER)]) == {OWNER, FRIEND}


def test_the_sender_learns_what_it_does_not_know() -> None:
    sent = sent_to_tl(SentMessage(a_box(outgoing=True, entities=(Entity("url", 0, 2),)), pts=5, pts_count=1))
    assert (sent.out, sent.id, sent.pts, sent.pts_count, sent.date) == (True, 7, 5, 1, 1_700_000_000)
    assert sent.entities == [types.MessageEntityUrl(offset=0, length=2)]


def _entities() -> Iterator[Entity]:
    arguments: dict[str, str | int] = {"textUrl": "http://x", "pre": "c", "mentionName": THIRD}
    for kind in sorted(KINDS):
        yield Entity(kind, 1, 2, arguments.get(kind))
    yield Entity("blockquote", 1, 2, 1)
    yield Entity("pre", 1, 2, "")


def test_every_kind_of_entity_comes_back() -> None:
    entities = [entity for entity in _entities() if entity.kind != "mentionName"]
    assert entities_from_tl(entities_to_tl(entities), lambda _: None) == entities
    assert entities_to_tl([]) is None


def test_a_mention_needs_a_user_the_caller_may_name() -> None:
    mention = types.InputMessageEntityMentionName(offset=0, length=1, user_id=types.InputUserSelf())
    assert entities_from_tl([mention], lambda _: THIRD) == [Entity("mentionName", 0, 1, THIRD)]
    assert entities_from_tl([mention], lambda _: None) == []
    assert list(mentioned_user_ids([Entity("mentionName", 0, 1, THIRD), Entity("bold", 0, 1)])) == [THIRD]


@pytest.mark.parametrize(
    "entity",
    [
        types.MessageEntityUnknown(offset=0, length=1),
        types.MessageEntityCustomEmoji(offset=0, length=1, document_id=5),
        types.MessageEntityMentionName(offset=0, length=1, user_id=THIRD),
        types.MessageEntityTextUrl(offset=0, length=1, url=" "),
        types.MessageEntityTextUrl(offset=0, length=1, url="x" * 3000),
        types.MessageEntityTextUrl(offset=0, length=1, url="http://a\x00b"),
        types.MessageEntityPre(offset=0, length=1, language="a\nb"),
    ],
)
def test_what_is_not_kept_of_a_clients_entities(entity: types.TypeMessageEntity) -> None:
    assert entities_from_tl([entity], lambda _: THIRD) == []
    assert entities_from_tl(None, lambda _: THIRD) == []


def test_a_dialog_is_the_owners_own() -> None:
    dialog = Dialog(
        OWNER, Peer.user(FRIEND), 7, 1_700_000_000, 2, 5, 6, folder_id=1, pinned_order=3, unread_mark=True
    )
    shown = dialog_to_tl(dialog)
    assert (shown.top_message, shown.unread_count, shown.read_inbox_max_id, shown.read_outbox_max_id) == (
        7,
        2,
        5,
        6,
    )
    assert (shown.pinned, shown.unread_mark, shown.folder_id) == (True, True, 1)
    assert dialog_to_tl(Dialog(OWNER, Peer.user(FRIEND), 7, 1)).folder_id is None
    assert dialog_user_ids(DialogPage((dialog,), {7: RICH}, 1)) == {FRIEND, THIRD, THIRD + 1}


def test_the_hash_of_a_list() -> None:
    assert list_hash([]) == 0
    assert list_hash([1]) == 1
    # (1 ^ 1 << 35) ^ (... >> 4), then plus 2, by hand.
    step = 1 ^ (1 << 35)
    assert list_hash([1, 2]) == (step ^ (step >> 4)) + 2
    assert all(-(2**63) <= list_hash(range(n)) < 2**63 for n in range(50))
    page = DialogPage((Dialog(OWNER, Peer.user(FRIEND), 7, 1),), {7: RICH}, 1)
    read = DialogPage((Dialog(OWNER, Peer.user(FRIEND), 7, 1, read_inbox_max_id=7),), {7: RICH}, 1)
    assert dialogs_hash(page, {}, {}) != dialogs_hash(read, {}, {})
    assert messages_hash([RICH]) != messages_hash([a_box()])


def _kind_events() -> Iterator[tuple[Event, MessageBox | None]]:
    yield an_event(EventKind.NOOP, peer=None, box_id=0), None
    yield an_event(EventKind.NEW_MESSAGE), RICH
    yield an_event(EventKind.NEW_MESSAGE), None
    yield an_event(EventKind.READ_INBOX, payload={"still_unread_count": 4}), None
    yield an_event(EventKind.READ_OUTBOX), None
    yield an_event(EventKind.PEER_BLOCKED, payload={"blocked": True}), None
    yield an_event(EventKind.CONTACTS_RESET, peer=None, payload={"user_ids": [FRIEND]}), None
    yield an_event(EventKind.PEER_SETTINGS, payload={"share_contact": True}), None
    yield an_event(EventKind.USER_CHANGED), None


def test_the_cases_cover_every_kind() -> None:
    later = {kind for kind in EventKind if kind > EventKind.USER_CHANGED}  # each beside its own noun
    assert {event.kind for event, _ in _kind_events()} == set(EventKind) - later


@pytest.mark.parametrize(("event", "box"), list(_kind_events()))
def test_a_push_moves_the_pts_exactly_once(event: Event, box: MessageBox | None) -> None:
    moves = [update for update in pushed_updates(event, box, VIEWS) if hasattr(update, "pts")]
    assert [(update.pts, update.pts_count) for update in moves] == [(event.pts, event.pts_count)]
    assert event_user_ids(event, box) <= {FRIEND, THIRD, THIRD + 1}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("event", "box"), list(_kind_events()))
def test_a_push_can_be_read_in_every_layer(event: Event, box: MessageBox | None, layer: int) -> None:
    update = types.Updates(
        updates=pushed_updates(event, box, VIEWS), users=[], chats=[], date=event.date, seq=0
    )
    read = tl.read(tl.write(update, layer))
    assert isinstance(read, types.Updates)
    moves = [update for update in read.updates if hasattr(update, "pts")]
    assert [(update.pts, update.pts_count) for update in moves] == [(event.pts, event.pts_count)]


def test_what_each_event_says() -> None:
    said = [event_updates(event, box, VIEWS) for event, box in _kind_events()]
    peer = types.PeerUser(user_id=FRIEND)
    assert said[0] == said[2] == []
    assert said[1] == [types.UpdateNewMessage(message=message_to_tl(RICH), pts=12, pts_count=1)]
    assert said[3] == [
        types.UpdateReadHistoryInbox(peer=peer, max_id=7, still_unread_count=4, pts=12, pts_count=1)
    ]
    assert said[4] == [types.UpdateReadHistoryOutbox(peer=peer, max_id=7, pts=12, pts_count=1)]
    assert said[5] == [types.UpdatePeerBlocked(peer_id=peer, blocked=True)]
    assert said[6] == [types.UpdateContactsReset()]
    assert said[7] == [types.UpdatePeerSettings(peer=peer, settings=types.PeerSettings(share_contact=True))]
    assert said[8] == [
        types.UpdateUserName(
            user_id=FRIEND,
            first_name="Ada",
            last_name="L",
            usernames=[types.Username(username="ada_l", active=True)],
        ),
        types.UpdateUser(user_id=FRIEND),
    ]
    assert event_updates(an_event(EventKind.USER_CHANGED), None, {}) == []


def test_an_event_without_its_peer_is_a_bug() -> None:
    with pytest.raises(ValueError, match="has no peer"):
        event_updates(an_event(EventKind.READ_INBOX, peer=None), None, {})


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    "answer",
    [
        sent_to_tl(SentMessage(RICH, 5, 1)),
        state_to_tl(UpdatesState(pts=3, date=4, unread_count=5)),
        types.messages.Messages(messages=[message_to_tl(RICH)], topics=[], chats=[], users=[]),
        types.messages.MessagesSlice(count=9, messages=[], topics=[], chats=[], users=[]),
        types.messages.Dialogs(
            dialogs=[dialog_to_tl(Dialog(OWNER, Peer.user(FRIEND), 7, 1))], messages=[], chats=[], users=[]
        ),
    ],
)
def test_an_answer_can_be_read_in_every_layer(answer: tl.TLObject, layer: int) -> None:
    assert type(tl.read(tl.write(answer, layer))) is type(answer)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_entity_can_be_written_in_every_layer(layer: int) -> None:
    message = message_to_tl(a_box(text="0123456789", entities=tuple(_entities())))
    read = tl.read(tl.write(message, layer))
    assert isinstance(read, types.Message)
    assert read.message == "0123456789"


@pytest.mark.parametrize("character", ["x", "\U0001f642"])
def test_a_page_of_the_heaviest_messages_can_be_answered(character: str) -> None:
    """A hundred of them, and the update that brings one, fit where answers and updates wait to be sent."""

    def heaviest(length: int) -> FormattedText:
        units = utf16_length(character)
        url = "https://x/" + "y" * (MAX_ARGUMENT_BYTES // MAX_ENTITIES - 10)
        entities = [Entity("textUrl", number * units, units, url) for number in range(MAX_ENTITIES)]
        text = clean_text(character * length, entities)
        assert len(text.entities) == MAX_ENTITIES
        longer = [Entity("textUrl", number * units, units, url + "yy") for number in range(MAX_ENTITIES)]
        with pytest.raises(EntitiesTooLong):
            clean_text(character * length, longer)
        return text

    text, quote = heaviest(MAX_TEXT_CODE_POINTS), heaviest(MAX_QUOTE_CODE_POINTS)
    reply = ReplyTo(5, quote.text, quote.entities, 0)
    size = len(
        tl.write(message_to_tl(a_box(text=text.text, entities=text.entities, reply_to=reply)), tl.LAYER)
    )
    users = 4 << 10
    assert size + users < SessionLimits().max_update_bytes
    assert (size + users) * MAX_PAGE < min(
        SessionLimits().max_answer_bytes, GatewayLimits().max_outbound_bytes
    )
