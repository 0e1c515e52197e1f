"""Plans of the statements on accounts, keys and contacts: one owner is one partition, found by an index."""

from __future__ import annotations

import re

from telesrv.store import (
    Store,
    accounts,
    action_bars,
    archive,
    auth_keys,
    blocks,
    contacts,
    deletion,
    notify,
    presence,
    privacy,
    profiles,
    saved_contacts,
    sign_ups,
    users,
)

CLIENT = [1, "", "", "", "", ""]
ONE_OWNER = [
    (users.SQL_USER, [7]),
    (users.SQL_KNOWN, [7, [8, 9]]),
    (presence.SQL_SEEN, [7, 5]),
    (accounts.SQL_LOCK, [7]),
    (profiles.SQL_SET_PROFILE, [7, "", "", ""]),
    (profiles.SQL_SET_USERNAME, [7, None]),
    (accounts.SQL_LOCK_KEY, [7]),
    (accounts.SQL_MOVE_KEY, [7, 8]),
    (accounts.SQL_KEY_USER, [7]),
    (accounts.SQL_AUTHORIZATION, [7, 8]),
    (accounts.SQL_AUTHORIZATIONS, [7]),
    (accounts.SQL_TOUCH, [7, 8, 1, "", *CLIENT]),
    (accounts.SQL_DEAUTHORIZE, [7, [8]]),
    (accounts.SQL_BY_HASH, [7, 8]),
    (accounts.SQL_OTHERS, [7, 8]),
    (auth_keys.SQL_GET, [7]),
    (auth_keys.SQL_BIND, [7, 8, 9]),
    (auth_keys.SQL_SET_LAYER, [7, 8, *CLIENT]),
    (auth_keys.SQL_DELETE, [7]),
    (contacts.SQL_COUNT, [7]),
    (contacts.SQL_BOOK, [7]),
    (contacts.SQL_SEARCH_BOOK, [7, "a", "", 5]),
    (contacts.SQL_LISTED, [7, [8, 9]]),
    (blocks.SQL_KEEP_CHATS, [7, [8]]),
    (blocks.SQL_UNBLOCK, [7, 1, [8]]),
    (blocks.SQL_ALL_BLOCKED, [7, 1]),
    (contacts.SQL_SET_NOTE, [7, 8, "", None]),
    (blocks.SQL_IS_BLOCKED, [7, 1, 8]),
    (blocks.SQL_BLOCKED_PAGE, [7, 0, 10]),
    (blocks.SQL_BLOCKED_COUNT, [7]),
    (privacy.SQL_GET, [7, 1]),
    (notify.SQL_GET, [7, 1, 1, 8]),
    (notify.SQL_FOR_PEERS, [7, 1, [8, 9]]),
    (notify.SQL_EXCEPTIONS, [7, 10]),
    (notify.SQL_CLEAR, [7, 1, 1, 8]),
    (notify.SQL_RESET, [7, 10]),
    (profiles.SQL_SET_BIRTHDAY, [7, 1, 1, 0]),
    (profiles.SQL_SET_FLAGS, [7, 0]),
    (profiles.SQL_SET_TTL, [7, 365]),
    (profiles.SQL_SET_PHONE, [7, ""]),
    (users.SQL_KNOWN_TO, [7, 10]),
    (users.SQL_NEWEST_PEERS, [7, 10]),
    (saved_contacts.SQL_SAVED, [7, 10]),
    (saved_contacts.SQL_SAVED_OF, [7, ["1", "2"]]),
    (saved_contacts.SQL_COUNT, [7]),
    (saved_contacts.SQL_FORGET, [7, ["1", "2"]]),
    (saved_contacts.SQL_TAKE, [7, "1", "", ""]),
    (sign_ups.SQL_OWNERS, ["1", 7, 10]),
    (deletion.SQL_DELETE, [7]),
    (deletion.SQL_FORGET_RULES, [7]),
    (deletion.SQL_FORGET_NOTIFY, [7]),
    (deletion.SQL_FORGET_BLOCKS, [7]),
    (deletion.SQL_KNOWN_AFTER, [7, 8, 10]),
    (deletion.SQL_PEERS_AFTER, [7, 8, 10]),
    (deletion.SQL_FORGET_OWN, [7, [8, 9]]),
    (action_bars.SQL_BLOCKED_USERS, [7, 1, [8, 9]]),
]
SEVERAL = [
    (users.SQL_USERS, [[7, 8]]),
    (users.SQL_RULES, [[7, 8]]),
    (profiles.SQL_FREE_PHONE, ["1", 7]),
    (deletion.SQL_AFTER, [7]),
    (deletion.SQL_LEFT, [5, 6, 10]),
    (deletion.SQL_ADVANCE, [7, 8, 9]),
    (deletion.SQL_LOCK_KNOWN, [[7, 8], 9]),
    (deletion.SQL_FORGET_KNOWN, [[7, 8], 9]),
    (deletion.SQL_IDLE, [0, 0, 5, 10]),
    (deletion.SQL_ACTIVE, [[7, 8]]),
    (users.SQL_KNOWN_PAIRS, [[7, 8], [8, 9]]),
    (users.SQL_WITH_CHAT, [[7, 8], 9]),
    (users.SQL_BLOCKED_PAIRS, [[7, 8], [8, 9]]),
    (presence.SQL_LAST_SEEN, [[7, 8]]),
    (users.SQL_EXISTING, [[7, 8]]),
    (contacts.SQL_LOCK_ENTRIES, [7, [8, 9]]),
    (contacts.SQL_PHONES, [["1", "2"]]),
    (contacts.SQL_SEARCH_USERNAMES, ["ab", 5]),
    (accounts.SQL_FREE_KEYS, [[7, 8], 9]),
    (accounts.SQL_CLEAR_DEVICES, [[7, 8], 9]),
    (archive.SQL_ARRIVING, [[7, 8], [9, 10]]),
    (saved_contacts.SQL_FORGET_NOTES, [7, ["1", "2"]]),
    (sign_ups.SQL_DUE, [5, 6, 10]),
    (sign_ups.SQL_LEASE, [7, 5, 6, 9, "x"]),
    (sign_ups.SQL_ADVANCE, [7, 5, False, 6, True, 7]),
    (auth_keys.SQL_EXPIRED, [1, 2]),
    (auth_keys.SQL_PURGE, [[7, 8], 1]),
]


async def plan(store: Store, sql: str, args: list[object]) -> str:
    async with store.pool.transaction() as connection:
        await connection.execute("SET LOCAL enable_seqscan = off")
        return "\n".join(row[0] for row in await connection.fetch("EXPLAIN " + sql, *args))


async def test_one_owner_is_one_partition(store: Store) -> None:
    for sql, args in ONE_OWNER:
        text = await plan(store, sql, args)
        partitions = set(re.findall(r"\b[a-z_]+_p\d\d\b", text))
        assert "Seq Scan" not in text, (sql, text)
        assert "Index" in text, (sql, text)
        assert len(partitions) == 1, (sql, text)


async def test_several_are_found_by_index(store: Store) -> None:
    for sql, args in SEVERAL:
        text = await plan(store, sql, args)
        # of node numbers there are at most 1,023: who lives may be found by reading them all, once
        assert "Seq Scan" not in text.replace("Seq Scan on nodes", ""), (sql, text)
        assert "Index" in text, (sql, text)
