"""Honest empty answers to what clients ask at start-up of features that are not here.

Nothing here pretends to have done something: a method that would change anything is refused by the
dispatcher instead. Every hash is 0, so that a client always asks with 0 and is never told "not modified".

*Spec: the pages of stickers, reactions, stories, themes and emoji statuses*
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from telesrv.mtproto.exchange import DH_BYTES, DH_G, DH_PRIME
from telesrv.rpc.convert.peers import peer_of, peer_to_tl, user_of
from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import TLFunction, functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

MAX_RANDOM_BYTES: Final = 1024
MAX_USERS: Final = 200

f, t = functions, types


def _no_stories() -> types.stories.Stories:
    return t.stories.Stories(count=0, stories=[], chats=[], users=[])


def _no_messages() -> types.messages.Messages:
    return t.messages.Messages(messages=[], topics=[], chats=[], users=[])


def _no_featured() -> types.messages.FeaturedStickers:
    return t.messages.FeaturedStickers(hash=0, count=0, sets=[], unread=[])


def _no_statuses() -> types.account.EmojiStatuses:
    return t.account.EmojiStatuses(hash=0, statuses=[])


def _no_reactions() -> types.messages.Reactions:
    return t.messages.Reactions(hash=0, reactions=[])


def _no_saved_dialogs() -> types.messages.SavedDialogs:
    return t.messages.SavedDialogs(dialogs=[], messages=[], chats=[], users=[])


def _no_themes() -> types.account.Themes:
    return t.account.Themes(hash=0, themes=[])


def _no_emoji() -> types.EmojiList:
    return t.EmojiList(hash=0, document_id=[])


def _no_groups() -> types.messages.EmojiGroups:
    return t.messages.EmojiGroups(hash=0, groups=[])


def _no_sets() -> types.messages.AllStickers:
    return t.messages.AllStickers(hash=0, sets=[])


def _auto_download() -> types.account.AutoDownloadSettings:
    off = t.AutoDownloadSettings(
        disabled=True,
        photo_size_max=0,
        video_size_max=0,
        file_size_max=0,
        video_upload_maxbitrate=0,
        small_queue_active_operations_max=0,
        large_queue_active_operations_max=0,
    )
    return t.account.AutoDownloadSettings(low=off, medium=off, high=off)


def _auto_save() -> types.account.AutoSaveSettings:
    off = t.AutoSaveSettings()
    return t.account.AutoSaveSettings(
        users_settings=off, chats_settings=off, broadcasts_settings=off, exceptions=[], chats=[], users=[]
    )


_EMPTY: Final[dict[type[TLFunction], Callable[[], object]]] = {
    f.account.ClearRecentEmojiStatuses: lambda: True,
    f.account.GetAutoDownloadSettings: _auto_download,
    f.account.GetAutoSaveSettings: _auto_save,
    f.account.GetBusinessChatLinks: lambda: t.account.BusinessChatLinks(links=[], chats=[], users=[]),
    f.account.GetChannelDefaultEmojiStatuses: _no_statuses,
    f.account.GetChannelRestrictedStatusEmojis: _no_emoji,
    f.account.GetChatThemes: _no_themes,
    f.account.GetCollectibleEmojiStatuses: _no_statuses,
    f.account.GetConnectedBots: lambda: t.account.ConnectedBots(connected_bots=[], users=[]),
    f.account.GetContentSettings: t.account.ContentSettings,
    f.account.GetDefaultBackgroundEmojis: _no_emoji,
    f.account.GetDefaultEmojiStatuses: _no_statuses,
    f.account.GetDefaultGroupPhotoEmojis: _no_emoji,
    f.account.GetDefaultProfilePhotoEmojis: _no_emoji,
    f.account.GetMultiWallPapers: list,
    f.account.GetPasskeys: lambda: t.account.Passkeys(passkeys=[]),
    f.account.GetRecentEmojiStatuses: _no_statuses,
    f.account.GetSavedMusicIds: lambda: t.account.SavedMusicIds(ids=[]),
    f.account.GetSavedRingtones: lambda: t.account.SavedRingtones(hash=0, ringtones=[]),
    f.account.GetThemes: _no_themes,
    f.account.GetUniqueGiftChatThemes: lambda: t.account.ChatThemes(hash=0, themes=[], chats=[], users=[]),
    f.account.GetWallPapers: lambda: t.account.WallPapers(hash=0, wallpapers=[]),
    f.account.GetWebAuthorizations: lambda: t.account.WebAuthorizations(authorizations=[], users=[]),
    f.account.GetWebBrowserSettings: lambda: t.account.WebBrowserSettings(
        external_exceptions=[], inapp_exceptions=[], hash=0
    ),
    f.account.RegisterDevice: lambda: True,
    f.account.UnregisterDevice: lambda: True,
    f.aicompose.GetTones: lambda: t.aicompose.Tones(hash=0, tones=[], users=[]),
    f.contacts.GetSponsoredPeers: t.contacts.SponsoredPeersEmpty,
    f.messages.ClearRecentReactions: lambda: True,
    f.messages.ClearRecentStickers: lambda: True,
    f.messages.GetAllStickers: _no_sets,
    f.messages.GetArchivedStickers: lambda: t.messages.ArchivedStickers(count=0, sets=[]),
    f.messages.GetAttachMenuBots: lambda: t.AttachMenuBots(hash=0, bots=[], users=[]),
    f.messages.GetAttachedStickers: list,
    f.messages.GetAvailableEffects: lambda: t.messages.AvailableEffects(hash=0, effects=[], documents=[]),
    f.messages.GetAvailableReactions: lambda: t.messages.AvailableReactions(hash=0, reactions=[]),
    f.messages.GetCustomEmojiDocuments: list,
    f.messages.GetDefaultTagReactions: _no_reactions,
    f.messages.GetEmojiGroups: _no_groups,
    f.messages.GetEmojiKeywordsLanguages: list,
    f.messages.GetEmojiProfilePhotoGroups: _no_groups,
    f.messages.GetEmojiStatusGroups: _no_groups,
    f.messages.GetEmojiStickerGroups: _no_groups,
    f.messages.GetEmojiStickers: _no_sets,
    f.messages.GetFavedStickers: lambda: t.messages.FavedStickers(hash=0, packs=[], stickers=[]),
    f.messages.GetFeaturedEmojiStickers: _no_featured,
    f.messages.GetFeaturedStickers: _no_featured,
    f.messages.GetMaskStickers: _no_sets,
    f.messages.GetMyStickers: lambda: t.messages.MyStickers(count=0, sets=[]),
    f.messages.GetOldFeaturedStickers: _no_featured,
    f.messages.GetPinnedSavedDialogs: _no_saved_dialogs,
    f.messages.GetQuickReplies: lambda: t.messages.QuickReplies(
        quick_replies=[], messages=[], chats=[], users=[]
    ),
    f.messages.GetRecentReactions: _no_reactions,
    f.messages.GetRecentStickers: lambda: t.messages.RecentStickers(hash=0, packs=[], stickers=[], dates=[]),
    f.messages.GetSavedDialogs: _no_saved_dialogs,
    f.messages.GetSavedGifs: lambda: t.messages.SavedGifs(hash=0, gifs=[]),
    f.messages.GetSavedReactionTags: lambda: t.messages.SavedReactionTags(tags=[], hash=0),
    f.messages.GetStickers: lambda: t.messages.Stickers(hash=0, stickers=[]),
    f.messages.GetTopReactions: _no_reactions,
    f.messages.GetWebPagePreview: lambda: t.messages.WebPagePreview(
        media=t.MessageMediaEmpty(), chats=[], users=[]
    ),
    f.messages.SearchCustomEmoji: _no_emoji,
    f.messages.SearchEmojiStickerSets: lambda: t.messages.FoundStickerSets(hash=0, sets=[]),
    f.messages.SearchStickerSets: lambda: t.messages.FoundStickerSets(hash=0, sets=[]),
    f.stories.GetAllStories: lambda: t.stories.AllStories(
        count=0, state="", peer_stories=[], chats=[], users=[], stealth_mode=t.StoriesStealthMode()
    ),
    f.stories.GetChatsToSend: lambda: t.messages.Chats(chats=[]),
}
"""The answer of each method that asks for something nobody has, whoever asks."""

_EMPTY_OF_PEER: Final[dict[type[TLFunction], Callable[[], object]]] = {
    f.messages.GetRecentLocations: _no_messages,
    f.messages.GetSponsoredMessages: t.messages.SponsoredMessagesEmpty,
    f.messages.GetUnreadMentions: _no_messages,
    f.messages.GetUnreadReactions: _no_messages,
    f.stories.GetAlbums: lambda: t.stories.Albums(hash=0, albums=[]),
    f.stories.GetPinnedStories: _no_stories,
    f.stories.GetStoriesArchive: _no_stories,
    f.stories.GetStoriesByID: _no_stories,
}
"""The same for methods with a peer, which must be one that the caller may name."""

_REFUSED: Final[dict[type[TLFunction], str]] = {
    f.messages.GetStickerSet: "STICKERSET_INVALID",
    f.messages.CheckChatInvite: "INVITE_HASH_INVALID",
    f.messages.ImportChatInvite: "INVITE_HASH_INVALID",
    f.messages.GetFullChat: "CHAT_ID_INVALID",
    f.channels.GetFullChannel: "CHANNEL_INVALID",
    f.channels.JoinChannel: "CHANNEL_INVALID",
    f.channels.GetParticipants: "CHANNEL_INVALID",
    f.channels.GetMessages: "CHANNEL_INVALID",
    f.channels.ReadHistory: "CHANNEL_INVALID",
}
"""Methods about one thing of a kind that does not exist: whatever is named, it is not there."""

_Answer = Callable[["Context", Any], Coroutine[Any, Any, object]]


def _empty(make: Callable[[], object]) -> _Answer:
    async def answer(ctx: Context, request: Any) -> object:
        """Answers that there is nothing of the kind."""
        return make()

    return answer


def _empty_of_peer(make: Callable[[], object]) -> _Answer:
    async def answer(ctx: Context, request: Any) -> object:
        """Answers that the chat has nothing of the kind."""
        peer_of(request.peer, ctx.user_id, ctx.secret)
        return make()

    return answer


def _refused(error: str) -> _Answer:
    async def answer(ctx: Context, request: Any) -> object:
        """Refuses by the name of the error: nothing of the kind exists."""
        raise bad_request(error)

    return answer


for _method, _make in _EMPTY.items():
    handler(_method, stub=True)(_empty(_make))
for _method, _make in _EMPTY_OF_PEER.items():
    handler(_method, stub=True)(_empty_of_peer(_make))
for _method, _error in _REFUSED.items():
    handler(_method, stub=True)(_refused(_error))


@handler(f.messages.GetCommonChats)
async def get_common_chats(ctx: Context, request: functions.messages.GetCommonChats) -> types.messages.Chats:
    """Answers no group: there are none to have in common."""
    user_of(request.user_id, ctx.user_id, ctx.secret)
    return t.messages.Chats(chats=[])


@handler(f.messages.GetChats, stub=True)
async def get_chats(ctx: Context, request: functions.messages.GetChats) -> types.messages.Chats:
    """Answers that none of the groups exists."""
    if request.id:
        raise bad_request("CHAT_ID_INVALID")
    return t.messages.Chats(chats=[])


@handler(f.channels.GetChannels, stub=True)
async def get_channels(ctx: Context, request: functions.channels.GetChannels) -> types.messages.Chats:
    """Answers that none of the channels exists."""
    if request.id:
        raise bad_request("CHANNEL_INVALID")
    return t.messages.Chats(chats=[])


@handler(f.stories.GetAllReadPeerStories, stub=True)
async def get_no_updates(ctx: Context, request: object) -> types.Updates:
    """Answers no update: there is nothing of the kind."""
    return t.Updates(updates=[], users=[], chats=[], date=ctx.now(), seq=0)


@handler(f.messages.GetEmojiKeywords, stub=True)
@handler(f.messages.GetEmojiKeywordsDifference, stub=True)
async def get_emoji_keywords(
    ctx: Context,
    request: functions.messages.GetEmojiKeywords | functions.messages.GetEmojiKeywordsDifference,
) -> types.EmojiKeywordsDifference:
    """Answers no keyword."""
    version = getattr(request, "from_version", 0)
    return t.EmojiKeywordsDifference(
        lang_code=request.lang_code[:64], from_version=version, version=max(version, 1), keywords=[]
    )


@handler(f.messages.GetDhConfig, stub=True)
async def get_dh_config(ctx: Context, request: functions.messages.GetDhConfig) -> types.messages.DhConfig:
    """Answers the group and the random bytes; secret chats themselves are not here."""
    if not 0 <= request.random_length <= MAX_RANDOM_BYTES:
        raise bad_request("RANDOM_LENGTH_INVALID")
    return t.messages.DhConfig(
        g=DH_G,
        p=DH_PRIME.to_bytes(DH_BYTES, "big"),
        version=1,
        random=secrets.token_bytes(request.random_length),
    )


@handler(f.users.GetRequirementsToContact)
async def get_requirements_to_contact(
    ctx: Context, request: functions.users.GetRequirementsToContact
) -> list[types.TypeRequirementToContact]:
    """Answers that everybody may be written to."""
    if len(request.id) > MAX_USERS:
        raise bad_request("LIMIT_INVALID")
    for input_user in request.id:
        user_of(input_user, ctx.user_id, ctx.secret)
    return [t.RequirementToContactEmpty() for _ in request.id]


@handler(f.users.GetSavedMusic, stub=True)
async def get_saved_music(ctx: Context, request: functions.users.GetSavedMusic) -> types.users.SavedMusic:
    """Answers no piece of music."""
    user_of(request.id, ctx.user_id, ctx.secret)
    return t.users.SavedMusic(count=0, documents=[])


@handler(f.photos.GetUserPhotos, stub=True)
async def get_user_photos(ctx: Context, request: functions.photos.GetUserPhotos) -> types.photos.Photos:
    """Answers no photo."""
    user_of(request.user_id, ctx.user_id, ctx.secret)
    return t.photos.Photos(photos=[], users=[])


@handler(f.stories.GetPeerStories, stub=True)
async def get_peer_stories(
    ctx: Context, request: functions.stories.GetPeerStories
) -> types.stories.PeerStories:
    """Answers no story."""
    peer = peer_of(request.peer, ctx.user_id, ctx.secret)
    return t.stories.PeerStories(stories=t.PeerStories(peer=peer_to_tl(peer), stories=[]), chats=[], users=[])
