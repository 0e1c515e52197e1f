"""The address book, finding people, and blocking them.

*Spec: Contacts; Searching for users; Block list*
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from telesrv.domain.contacts import (
    LOOKUPS_PER_DAY,
    MAX_BLOCKED_PAGE,
    MAX_FOUND,
    MAX_IMPORT,
    MAX_NOTE,
    NOTE_KINDS,
)
from telesrv.domain.errors import PeerInvalid
from telesrv.domain.peers import MAX_ID, SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.phones import maybe_phone
from telesrv.domain.text import FormattedText, TextEmpty, clean_text
from telesrv.domain.usernames import is_valid_username
from telesrv.domain.users import Contact, PhoneContact
from telesrv.rpc import fields
from telesrv.rpc.composing import text_errors
from telesrv.rpc.convert.dialogs import list_hash
from telesrv.rpc.convert.entities import entities_from_tl
from telesrv.rpc.convert.peers import peer_of, peer_to_tl, user_of
from telesrv.rpc.convert.users import peer_settings_to_tl, status_to_tl, user_to_tl
from telesrv.rpc.errors import RpcError, bad_request
from telesrv.rpc.registry import handler
from telesrv.rpc.views import users_to_tl
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

DAY_S: Final = 86_400
CHANGES_PER_MINUTE: Final = 120
"""Entries added or deleted one by one: those of a mutual contact are written to the other's log too."""
SEARCHES_PER_MINUTE: Final = 120
RESOLVES_PER_MINUTE: Final = 120
MAX_DELETE: Final = 1_000


@handler(functions.contacts.GetContacts)
async def get_contacts(ctx: Context, request: functions.contacts.GetContacts) -> types.contacts.TypeContacts:
    """Answers the address book, or that it is as the client knows it."""
    entries = await ctx.store.contacts.list(ctx.user_id)
    saved = await ctx.store.saved_contacts.count(ctx.user_id)
    if request.hash and request.hash == _hash(entries, saved):
        return types.contacts.ContactsNotModified()
    return types.contacts.Contacts(
        contacts=[types.Contact(user_id=e.contact_user_id, mutual=e.mutual) for e in entries],
        saved_count=saved,
        users=await users_to_tl(ctx, (e.contact_user_id for e in entries)),
    )


@handler(functions.contacts.GetContactIDs)
async def get_contact_ids(ctx: Context, request: functions.contacts.GetContactIDs) -> list[int]:
    """Answers the ids that this method's 32 bits can hold; getContacts has them all."""
    entries = await ctx.store.contacts.list(ctx.user_id)
    return [e.contact_user_id for e in entries if e.contact_user_id <= MAX_ID]


@handler(functions.contacts.GetStatuses)
async def get_statuses(
    ctx: Context, request: functions.contacts.GetStatuses
) -> list[types.TypeContactStatus]:
    """Answers the presence of everybody in the address book, as far as the caller may see it."""
    entries = await ctx.store.contacts.list(ctx.user_id)
    views = await ctx.store.users.views(ctx.user_id, [e.contact_user_id for e in entries])
    return [
        types.ContactStatus(user_id=user_id, status=status_to_tl(view.presence, ctx.now()))
        for user_id, view in views.items()
    ]


@handler(functions.contacts.ImportContacts)
async def import_contacts(
    ctx: Context, request: functions.contacts.ImportContacts
) -> types.contacts.ImportedContacts:
    """Takes entries into the address book and answers which of them have an account; the numbers that have
    none are saved.

    At most 1,000 entries are looked at; the rest comes back in retry_contacts. Entries without a usable
    number or name are left out.
    """
    wanted, later = request.contacts[:MAX_IMPORT], request.contacts[MAX_IMPORT:]
    entries = [entry for contact in wanted if (entry := _maybe_entry(contact)) is not None]
    outcome = await ctx.store.contacts.import_(ctx.user_id, entries)
    return types.contacts.ImportedContacts(
        imported=[types.ImportedContact(user_id=u, client_id=c) for u, c in outcome.imported],
        popular_invites=[],
        retry_contacts=[*outcome.retry, *(contact.client_id for contact in later)],
        users=await users_to_tl(ctx, (user_id for user_id, _ in outcome.imported)),
    )


@handler(functions.contacts.AddContact)
async def add_contact(ctx: Context, request: functions.contacts.AddContact) -> types.Updates:
    """Takes one account into the address book, or changes its entry."""
    user_id = user_of(request.id, ctx.user_id, ctx.secret, "CONTACT_ID_INVALID")
    if user_id in (ctx.user_id, SERVICE_USER_ID):
        raise bad_request("CONTACT_ID_INVALID")
    first_name = fields.name(request.first_name, "CONTACT_NAME_EMPTY", required=False)
    last_name = fields.name(request.last_name, "CONTACT_NAME_EMPTY", required=False)
    if not first_name and not last_name:
        raise bad_request("CONTACT_NAME_EMPTY")
    note = _note(request.note)
    await _count_change(ctx)
    try:
        await ctx.store.contacts.add(
            ctx.user_id,
            user_id,
            first_name,
            last_name,
            request.add_phone_privacy_exception,
            note=note.text,
            note_entities=note.entities,
        )
    except PeerInvalid as error:
        raise bad_request("CONTACT_ID_INVALID") from error
    return await _settings_of(ctx, [user_id])


@handler(functions.contacts.AcceptContact)
async def accept_contact(ctx: Context, request: functions.contacts.AcceptContact) -> types.Updates:
    """Lets somebody in the address book see the caller's phone number."""
    user_id = user_of(request.id, ctx.user_id, ctx.secret, "CONTACT_ID_INVALID")
    entries = await ctx.store.contacts.list(ctx.user_id)
    entry = next((e for e in entries if e.contact_user_id == user_id), None)
    if entry is None:
        raise bad_request("CONTACT_REQ_MISSING")
    await _count_change(ctx)
    await ctx.store.contacts.add(ctx.user_id, user_id, entry.first_name, entry.last_name, True)
    return await _settings_of(ctx, [user_id])


@handler(functions.contacts.DeleteContacts)
async def delete_contacts(ctx: Context, request: functions.contacts.DeleteContacts) -> types.Updates:
    """Takes accounts out of the address book; those that are not in it are passed over."""
    if len(request.id) > MAX_DELETE:
        raise bad_request("LIMIT_INVALID")
    ids = list(_known_user_ids(ctx, request.id))
    if ids:
        await _count_change(ctx)
        await ctx.store.contacts.delete(ctx.user_id, ids)
    return await _settings_of(ctx, ids)


@handler(functions.contacts.DeleteByPhones)
async def delete_by_phones(ctx: Context, request: functions.contacts.DeleteByPhones) -> bool:
    """Takes the entries with these phone numbers, with an account or without, out of the address book."""
    if len(request.phones) > MAX_DELETE:
        raise bad_request("LIMIT_INVALID")
    phones = {phone for text in request.phones if (phone := maybe_phone(text)) is not None}
    entries = await ctx.store.contacts.list(ctx.user_id)
    ids = [e.contact_user_id for e in entries if e.phone in phones]
    await ctx.store.saved_contacts.forget(ctx.user_id, phones)
    if ids:
        await _count_change(ctx)
        await ctx.store.contacts.delete(ctx.user_id, ids)
    return True


@handler(functions.contacts.UpdateContactNote)
async def update_contact_note(ctx: Context, request: functions.contacts.UpdateContactNote) -> bool:
    """Keeps what the caller wants to remember of a contact; an empty note is none."""
    user_id = user_of(request.id, ctx.user_id, ctx.secret, "CONTACT_ID_INVALID")
    note = _note(request.note)
    try:
        await ctx.store.contacts.set_note(ctx.user_id, user_id, note.text, note.entities)
    except PeerInvalid as error:
        raise bad_request("CONTACT_ID_INVALID") from error
    return True


@handler(functions.contacts.ResetSaved)
async def reset_saved(ctx: Context, request: functions.contacts.ResetSaved) -> bool:
    """Forgets the numbers of imports that have no account: nobody tells the caller when they sign up."""
    await ctx.store.saved_contacts.reset(ctx.user_id)
    return True


@handler(functions.contacts.GetSaved)
async def get_saved(ctx: Context, request: functions.contacts.GetSaved) -> list[types.SavedPhoneContact]:
    """Answers the numbers of imports that have no account; no takeout session is asked for."""
    return [
        types.SavedPhoneContact(
            phone=saved.phone, first_name=saved.first_name, last_name=saved.last_name, date=saved.date
        )
        for saved in await ctx.store.saved_contacts.list(ctx.user_id)
    ]


@handler(functions.contacts.Search)
async def search(ctx: Context, request: functions.contacts.Search) -> types.contacts.Found:
    """Answers contacts by name and accounts by username."""
    query = fields.query(request.q)
    limit = min(max(request.limit, 1), MAX_FOUND)
    await ctx.store.limits.hit("contacts:search", ctx.user_id, SEARCHES_PER_MINUTE, 60)
    mine, others = await ctx.store.contacts.search(ctx.user_id, query, limit)
    return types.contacts.Found(
        my_results=[types.PeerUser(user_id=user_id) for user_id in mine],
        results=[types.PeerUser(user_id=user_id) for user_id in others],
        chats=[],
        users=await users_to_tl(ctx, [*mine, *others]),
    )


@handler(functions.contacts.ResolveUsername)
async def resolve_username(
    ctx: Context, request: functions.contacts.ResolveUsername
) -> types.contacts.ResolvedPeer:
    """Answers who has a username."""
    username = request.username.strip().removeprefix("@")
    if not is_valid_username(username):
        raise bad_request("USERNAME_INVALID")
    await ctx.store.limits.hit("contacts:resolve", ctx.user_id, RESOLVES_PER_MINUTE, 60)
    user = await ctx.store.accounts.by_username(username)
    if user is None or user.deleted:
        raise bad_request("USERNAME_NOT_OCCUPIED")
    return await _resolved(ctx, user.user_id)


@handler(functions.contacts.ResolvePhone)
async def resolve_phone(
    ctx: Context, request: functions.contacts.ResolvePhone
) -> types.contacts.ResolvedPeer:
    """Answers who has a phone number; as bounded as importing it."""
    phone = maybe_phone(request.phone)
    if phone is None:
        raise bad_request("PHONE_NOT_OCCUPIED")
    await ctx.store.limits.hit("contacts:import", ctx.user_id, LOOKUPS_PER_DAY, DAY_S)
    user_id = await ctx.store.contacts.maybe_found(ctx.user_id, phone)
    if user_id is None:
        raise bad_request("PHONE_NOT_OCCUPIED")
    return await _resolved(ctx, user_id)


@handler(functions.contacts.Block)
async def block(ctx: Context, request: functions.contacts.Block) -> bool:
    """Blocks an account: nothing it sends reaches the caller. There are no stories to block it from."""
    peer = _blockable(ctx, request.id)
    if not request.my_stories_from:
        await ctx.store.blocks.block(ctx.user_id, peer)
    return True


@handler(functions.contacts.Unblock)
async def unblock(ctx: Context, request: functions.contacts.Unblock) -> bool:
    """Undoes a block."""
    peer = _blockable(ctx, request.id)
    if not request.my_stories_from:
        await ctx.store.blocks.unblock(ctx.user_id, peer)
    return True


@handler(functions.contacts.SetBlocked)
async def set_blocked(ctx: Context, request: functions.contacts.SetBlocked) -> bool:
    """Blocks exactly these accounts and nobody else. There are no stories to block anybody from."""
    if not 0 <= request.limit <= MAX_ID or len(request.id) > MAX_DELETE:
        raise bad_request("LIMIT_INVALID")
    peers = [_blockable(ctx, peer) for peer in request.id]
    if not request.my_stories_from:
        await ctx.store.blocks.set(ctx.user_id, [peer.id for peer in peers])
    return True


@handler(functions.contacts.GetBlocked)
async def get_blocked(ctx: Context, request: functions.contacts.GetBlocked) -> types.contacts.TypeBlocked:
    """Answers a page of the block list, newest first."""
    if request.my_stories_from:
        return types.contacts.Blocked(blocked=[], chats=[], users=[])
    offset = min(max(request.offset, 0), MAX_ID)
    limit = min(max(request.limit, 0), MAX_BLOCKED_PAGE)
    page, total = await ctx.store.blocks.page(ctx.user_id, offset, limit)
    blocked: list[types.TypePeerBlocked] = [
        types.PeerBlocked(peer_id=peer_to_tl(peer), date=date) for peer, date in page
    ]
    users = await users_to_tl(ctx, (peer.id for peer, _ in page if peer.type is PeerType.USER))
    if offset == 0 and len(page) == total:
        return types.contacts.Blocked(blocked=blocked, chats=[], users=users)
    return types.contacts.BlockedSlice(count=total, blocked=blocked, chats=[], users=users)


async def _count_change(ctx: Context) -> None:
    await ctx.store.limits.hit("contacts:change", ctx.user_id, CHANGES_PER_MINUTE, 60)


def _hash(entries: Sequence[Contact], saved: int) -> int:
    """Returns the hash of an address book: how many numbers are saved beside it, then the ids in order."""
    return list_hash([saved, *sorted(e.contact_user_id for e in entries)])


def _maybe_entry(contact: types.TypeInputContact) -> PhoneContact | None:
    phone = maybe_phone(contact.phone)
    first_name = fields.line(contact.first_name)[: fields.MAX_NAME]
    last_name = fields.line(contact.last_name)[: fields.MAX_NAME]
    if phone is None or not (first_name or last_name):
        return None
    note = _note(contact.note)
    return PhoneContact(contact.client_id, phone, first_name, last_name, note.text, note.entities)


def _note(note: types.TypeTextWithEntities | None) -> FormattedText:
    """Returns a note as it is kept, an empty one for none."""
    if note is None:
        return FormattedText("")
    with text_errors(), suppress(TextEmpty):
        cleaned = clean_text(note.text, entities_from_tl(note.entities, lambda _: None), limit=MAX_NOTE)
        return FormattedText(cleaned.text, tuple(one for one in cleaned.entities if one.kind in NOTE_KINDS))
    return FormattedText("")


def _known_user_ids(ctx: Context, input_users: Iterable[types.TypeInputUser]) -> Iterable[int]:
    for input_user in input_users:
        try:
            yield user_of(input_user, ctx.user_id, ctx.secret)
        except RpcError:
            continue


def _blockable(ctx: Context, input_peer: types.TypeInputPeer) -> Peer:
    peer = peer_of(input_peer, ctx.user_id, ctx.secret)
    if peer.type is not PeerType.USER or peer.id in (ctx.user_id, SERVICE_USER_ID):
        raise bad_request("CONTACT_ID_INVALID")
    return peer


async def _resolved(ctx: Context, user_id: int) -> types.contacts.ResolvedPeer:
    return types.contacts.ResolvedPeer(
        peer=types.PeerUser(user_id=user_id), chats=[], users=await users_to_tl(ctx, [user_id])
    )


async def _settings_of(ctx: Context, user_ids: Sequence[int]) -> types.Updates:
    """Returns the action bars of these chats as they are now. The durable events of the change, with their
    pts, come to this session as to all others."""
    views = await ctx.store.users.views(ctx.user_id, user_ids)
    return types.Updates(
        updates=[
            types.UpdatePeerSettings(peer=types.PeerUser(user_id=user_id), settings=peer_settings_to_tl(view))
            for user_id, view in views.items()
        ],
        users=[user_to_tl(view, ctx.secret, ctx.now()) for view in views.values()],
        chats=[],
        date=ctx.now(),
        seq=0,
    )
