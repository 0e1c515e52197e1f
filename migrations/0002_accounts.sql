-- Accounts, keys, address books. Large tables are partitioned by the id that every statement on them gives.

CREATE TABLE users (
    user_id bigint NOT NULL PRIMARY KEY,
    phone text NOT NULL,
    first_name text NOT NULL,
    last_name text NOT NULL DEFAULT '',
    username text,
    about text NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    last_seen_at bigint NOT NULL DEFAULT 0,
    deleted boolean NOT NULL DEFAULT false
) PARTITION BY HASH (user_id);
-- telesrv:partitions users

-- The account that sends notices and login codes; it has no phone and nobody logs in to it.
INSERT INTO users (user_id, phone, first_name, created_at) VALUES (777000, '', 'telesrv', 0);

-- Who has a phone number; digits only.
CREATE TABLE phone_numbers (
    phone text COLLATE "C" NOT NULL PRIMARY KEY,
    user_id bigint NOT NULL
);

-- Who has a username; lower case.
CREATE TABLE usernames (
    username text COLLATE "C" NOT NULL PRIMARY KEY,
    user_id bigint NOT NULL
);

CREATE TABLE auth_keys (
    auth_key_id bigint NOT NULL PRIMARY KEY,
    data bytea NOT NULL CHECK (octet_length(data) = 256),
    created_at bigint NOT NULL,
    first_salt bigint NOT NULL DEFAULT 0,
    expires_at bigint,
    dc_id smallint NOT NULL,
    perm_auth_key_id bigint,
    layer integer NOT NULL DEFAULT 0,
    api_id integer NOT NULL DEFAULT 0,
    device_model text NOT NULL DEFAULT '',
    system_version text NOT NULL DEFAULT '',
    app_version text NOT NULL DEFAULT '',
    system_lang_code text NOT NULL DEFAULT '',
    lang_code text NOT NULL DEFAULT ''
) PARTITION BY HASH (auth_key_id);
-- telesrv:partitions auth_keys

CREATE INDEX auth_keys_expiry ON auth_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Which account a key is logged in to, by the key; what the account sees of it is in authorizations.
CREATE TABLE auth_key_users (
    auth_key_id bigint NOT NULL PRIMARY KEY,
    user_id bigint NOT NULL
) PARTITION BY HASH (auth_key_id);
-- telesrv:partitions auth_key_users

CREATE TABLE authorizations (
    user_id bigint NOT NULL,
    auth_key_id bigint NOT NULL,
    hash bigint NOT NULL CHECK (hash <> 0),
    created_at bigint NOT NULL,
    active_at bigint NOT NULL,
    ip text NOT NULL,
    api_id integer NOT NULL,
    device_model text NOT NULL,
    system_version text NOT NULL,
    app_version text NOT NULL,
    system_lang_code text NOT NULL,
    lang_code text NOT NULL,
    PRIMARY KEY (user_id, auth_key_id)
) PARTITION BY HASH (user_id);
-- telesrv:partitions authorizations

-- The owner's knowledge of another account. Each side has its row: listed is the owner's own entry, listed_by
-- says that the other side has such an entry for the owner; together they are a mutual contact. phone_shared says that
-- the owner shows the other side the phone number, phone_shared_by the reverse.
CREATE TABLE contacts (
    owner_user_id bigint NOT NULL,
    contact_user_id bigint NOT NULL,
    listed boolean NOT NULL DEFAULT false,
    listed_by boolean NOT NULL DEFAULT false,
    first_name text NOT NULL DEFAULT '',
    last_name text NOT NULL DEFAULT '',
    phone text NOT NULL DEFAULT '',
    phone_shared boolean NOT NULL DEFAULT false,
    phone_shared_by boolean NOT NULL DEFAULT false,
    PRIMARY KEY (owner_user_id, contact_user_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions contacts

CREATE INDEX contacts_listed ON contacts (owner_user_id, contact_user_id) WHERE listed;

-- Phone numbers without an account that an account has in its address book.
CREATE TABLE saved_contacts (
    owner_user_id bigint NOT NULL,
    phone text COLLATE "C" NOT NULL,
    first_name text NOT NULL,
    last_name text NOT NULL,
    date integer NOT NULL,
    PRIMARY KEY (owner_user_id, phone)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions saved_contacts

-- The same by phone number: who has it.
CREATE TABLE saved_phones (
    phone text COLLATE "C" NOT NULL,
    owner_user_id bigint NOT NULL,
    PRIMARY KEY (phone, owner_user_id)
) PARTITION BY HASH (phone);
-- telesrv:partitions saved_phones

-- Accounts that signed up and of which those who have their number have not all been told. Few rows, for a short time.
-- last_pass: all have been looked at once. quiet: the contact is there, but no message tells of it. While leased_until_ms is
-- ahead and leased_by, a holder of a node number, lives, that process tells of it.
CREATE TABLE sign_ups (
    user_id bigint NOT NULL PRIMARY KEY,
    phone text NOT NULL,
    quiet boolean NOT NULL,
    after_user_id bigint NOT NULL DEFAULT 0,
    last_pass boolean NOT NULL DEFAULT false,
    created_at bigint NOT NULL,
    due_at bigint NOT NULL,
    leased_until_ms bigint NOT NULL DEFAULT 0,
    leased_by text
);

CREATE INDEX sign_ups_due ON sign_ups (due_at);

CREATE TABLE contact_blocks (
    owner_user_id bigint NOT NULL,
    peer_type smallint NOT NULL,
    peer_id bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (owner_user_id, peer_type, peer_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions contact_blocks

CREATE INDEX contact_blocks_newest ON contact_blocks (owner_user_id, created_at DESC, peer_type, peer_id);

-- Secrets that all processes share, made once.
CREATE TABLE server_secrets (
    name text NOT NULL PRIMARY KEY,
    value bytea NOT NULL
);

-- Which methods clients call, by layer and client.
CREATE TABLE method_calls (
    method text NOT NULL,
    layer integer NOT NULL,
    client text NOT NULL,
    count bigint NOT NULL,
    last_seen_at bigint NOT NULL,
    PRIMARY KEY (method, layer, client)
);
