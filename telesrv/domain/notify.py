"""How an account wants to be notified: of a kind of chats, or of one chat apart from its kind.

*Spec: Push notifications and settings*
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from telesrv.domain.peers import Peer


class NotifyScope(IntEnum):
    """What settings are for; stored and never reused."""

    PEER = 1
    USERS = 2
    CHATS = 3
    BROADCASTS = 4
    REACTIONS = 5
    """What others make of one's own messages; no chats."""
    CONTACT_SIGN_UP = 6
    """That somebody of the address book has signed up; no chats."""


class NotifyFrom(IntEnum):
    """Whose reactions one is notified of; stored and never reused."""

    CONTACTS = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class Sound:
    """A notification sound: "default", "none", or "local" with a name and the client's own data."""

    kind: str
    title: str = ""
    data: str = ""


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """Settings; None leaves a thing to the next wider ones: of the kind of chats, of the client."""

    show_previews: bool | None = None
    silent: bool | None = None
    mute_until: int | None = None
    sound: Sound | None = None
    stories_muted: bool | None = None
    stories_hide_sender: bool | None = None
    stories_sound: Sound | None = None

    @property
    def differs(self) -> bool:
        """Tells whether it is an exception, sounds apart."""
        return (self.show_previews, self.silent, self.mute_until) != (None, None, None)

    @property
    def differs_for_stories(self) -> bool:
        return (self.stories_muted, self.stories_hide_sender, self.stories_sound) != (None, None, None)


@dataclass(frozen=True, slots=True)
class ReactionSettings:
    """Of which reactions one is notified, and how; None: of nobody's."""

    messages: NotifyFrom | None = NotifyFrom.CONTACTS
    stories: NotifyFrom | None = NotifyFrom.CONTACTS
    poll_votes: NotifyFrom | None = NotifyFrom.CONTACTS
    sound: Sound = Sound("default")
    show_previews: bool = True


@dataclass(frozen=True, slots=True)
class NotifyTarget:
    """What settings are for: a kind of chats, or a chat."""

    scope: NotifyScope
    peer: Peer | None = None
    """Only for PEER."""


FOR_EVER: Final = 2**31 - 1
"""Until when a chat is muted that is muted for good."""
DEFAULT: NotifySettings = NotifySettings()
SCOPE_DEFAULT: NotifySettings = NotifySettings(
    show_previews=True, silent=False, mute_until=0, sound=Sound("default")
)
"""The settings of a kind of chats that has none of its own."""


def settings_to_json(settings: NotifySettings) -> dict[str, Any]:
    """Returns what is set, as it is stored."""
    value: dict[str, Any] = {}
    for name in NotifySettings.__slots__:
        part = getattr(settings, name)
        if isinstance(part, Sound):
            value[name] = [part.kind, part.title, part.data]
        elif part is not None:
            value[name] = part
    return value


def settings_from_json(value: dict[str, Any]) -> NotifySettings:
    """Returns the settings that `settings_to_json` made *value* of."""
    parts: dict[str, Any] = {
        name: Sound(*part) if isinstance(part, list) else part for name, part in value.items()
    }
    return NotifySettings(**parts)


def reactions_to_json(settings: ReactionSettings) -> dict[str, Any]:
    """Returns the settings as they are stored."""
    sound = settings.sound
    return {
        "messages": settings.messages,
        "stories": settings.stories,
        "poll_votes": settings.poll_votes,
        "sound": [sound.kind, sound.title, sound.data],
        "show_previews": settings.show_previews,
    }


def reactions_from_json(value: dict[str, Any]) -> ReactionSettings:
    """Returns the settings that `reactions_to_json` made *value* of."""

    def whose(name: str) -> NotifyFrom | None:
        return None if value[name] is None else NotifyFrom(value[name])

    return ReactionSettings(
        whose("messages"),
        whose("stories"),
        whose("poll_votes"),
        Sound(*value["sound"]),
        value["show_previews"],
    )
