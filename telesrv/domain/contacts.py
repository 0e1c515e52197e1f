"""Address books: limits, and what the action bar of a chat offers.

*Spec: Contacts; Action bar*
"""

from __future__ import annotations

from typing import Final

MAX_IMPORT: Final = 1_000
"""The most entries one import looks at; the rest is to be tried again."""
MAX_CONTACTS: Final = 10_000
"""The most entries of one address book."""
MAX_SAVED: Final = 10_000
"""About the most phone numbers without an account that are kept of one address book."""
LOOKUPS_PER_DAY: Final = 5_000
"""Phone numbers that one account may ask about in a day."""
MAX_FOUND: Final = 50
"""The most accounts a search answers of each kind."""
MAX_BLOCKED_PAGE: Final = 100
MAX_NOTE: Final = 128
"""The most code points of a note about a contact."""
NOTE_KINDS: Final = frozenset({"bold", "italic", "underline", "strike", "spoiler"})
"""How a note may be styled."""


def action_bar(*, listed: bool, phone_shared: bool, blocked: bool, hidden: bool = False) -> dict[str, bool]:
    """Returns what the bar above a private chat offers its owner, by the names of the TL peerSettings flags.

    Args:
        listed: the other side is in the owner's address book.
        phone_shared: the owner lets the other side see their phone number.
        blocked: the owner has blocked the other side.
        hidden: the owner closed the bar; it is back when the address book entry comes or goes.
    """
    return {
        "add_contact": not listed and not blocked and not hidden,
        "block_contact": not listed and not blocked and not hidden,
        "share_contact": listed and not phone_shared and not blocked and not hidden,
    }
