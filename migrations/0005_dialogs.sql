-- What an account arranges in its list of chats: pins, archive, filters, drafts; and notes on its contacts.

-- bar_hidden: the owner closed the action bar of the chat. chat_kept: the other side may have a chat of which the owner
-- has none: the owner removed it, or blocked the other side. note: what the owner wrote about the contact.
ALTER TABLE contacts ADD COLUMN bar_hidden boolean NOT NULL DEFAULT false;
ALTER TABLE contacts ADD COLUMN chat_kept boolean NOT NULL DEFAULT false;
ALTER TABLE contacts ADD COLUMN note text NOT NULL DEFAULT '';
ALTER TABLE contacts ADD COLUMN note_entities jsonb;

CREATE INDEX dialogs_pinned ON dialogs (owner_user_id, folder_id, pinned_order) WHERE pinned_order > 0;
CREATE INDEX dialogs_unread_marks ON dialogs (owner_user_id, peer_type, peer_id) WHERE unread_mark;
CREATE INDEX dialogs_archive ON dialogs (owner_user_id, top_date, top_box_id) WHERE folder_id = 1;

-- One row an owner, made by the first change. Whoever changes pins, folders or filters locks it first.
CREATE TABLE dialog_settings (
    owner_user_id   bigint    NOT NULL,
    filter_order    integer[] NOT NULL DEFAULT '{}',
    filter_tags     boolean   NOT NULL DEFAULT false,
    top_peers_off   boolean   NOT NULL DEFAULT false,
    top_peers_after integer   NOT NULL DEFAULT 0,
    PRIMARY KEY (owner_user_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions dialog_settings

CREATE TABLE dialog_filters (
    owner_user_id bigint   NOT NULL,
    filter_id     smallint NOT NULL CHECK (filter_id >= 2),
    filter        jsonb    NOT NULL,
    PRIMARY KEY (owner_user_id, filter_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions dialog_filters

-- What the owner began to write in a chat; pts is that of the event which says so.
CREATE TABLE dialog_drafts (
    owner_user_id bigint   NOT NULL,
    peer_type     smallint NOT NULL,
    peer_id       bigint   NOT NULL,
    pts           integer  NOT NULL,
    draft         jsonb    NOT NULL,
    PRIMARY KEY (owner_user_id, peer_type, peer_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions dialog_drafts

-- Up to which box the messages to a peer do not count for how often the owner writes to it.
CREATE TABLE top_peer_resets (
    owner_user_id bigint   NOT NULL,
    peer_type     smallint NOT NULL,
    peer_id       bigint   NOT NULL,
    after_box_id  integer  NOT NULL,
    PRIMARY KEY (owner_user_id, peer_type, peer_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions top_peer_resets
