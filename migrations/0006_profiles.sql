-- What accounts say of themselves, who may see it, and how they want to be notified.

-- A birthday without a year has year 0; without a day there is none. flags: domain/privacy.py, AccountFlags.
ALTER TABLE users
    ADD COLUMN birth_day smallint NOT NULL DEFAULT 0,
    ADD COLUMN birth_month smallint NOT NULL DEFAULT 0,
    ADD COLUMN birth_year smallint NOT NULL DEFAULT 0,
    ADD COLUMN flags integer NOT NULL DEFAULT 0,
    ADD COLUMN ttl_days integer NOT NULL DEFAULT 365;

-- Accounts that may have been idle for too long are found by when they were last seen.
CREATE INDEX users_idle ON users (last_seen_at, user_id) WHERE NOT deleted;

-- The rules that an account has set; the defaults hold for the rest.
CREATE TABLE privacy_rules (
    user_id bigint NOT NULL,
    key smallint NOT NULL,
    rules jsonb NOT NULL,
    PRIMARY KEY (user_id, key)
) PARTITION BY HASH (user_id);
-- telesrv:partitions privacy_rules

-- The owner's settings of a scope (1 one chat, 2 users, 3 groups, 4 channels, 5 reactions, 6 contacts that sign up) or of one
-- chat in it.
CREATE TABLE notify_settings (
    owner_user_id bigint NOT NULL,
    scope smallint NOT NULL,
    peer_type smallint NOT NULL,
    peer_id bigint NOT NULL,
    settings jsonb NOT NULL,
    PRIMARY KEY (owner_user_id, scope, peer_type, peer_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions notify_settings

-- Accounts that are gone and of which others have not all been told yet, or something is left. Few rows, for a short time.
-- Leased as sign_ups is, by whoever deleted the account.
CREATE TABLE account_deletions (
    user_id bigint NOT NULL PRIMARY KEY,
    after_user_id bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    leased_until_ms bigint NOT NULL DEFAULT 0,
    leased_by text
);
