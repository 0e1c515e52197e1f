-- What private chats need beyond sending and reading: forwards, pins, expiry, scheduled messages.

-- The author's own box names the shared body; a forward keeps the first author; a message may have its time. What tells
-- of an action instead of having a text has no shared body.
ALTER TABLE message_boxes
    ADD COLUMN random_id bigint NOT NULL DEFAULT 0,
    ADD COLUMN expires_at integer,
    ADD COLUMN fwd jsonb,
    ADD COLUMN action jsonb;

-- Bit 1 of the flags: pinned.
CREATE INDEX message_boxes_pinned ON message_boxes (owner_user_id, peer_type, peer_id, box_id)
    WHERE flags & 1 = 1 AND NOT deleted;
CREATE INDEX message_boxes_expiry ON message_boxes (owner_user_id, peer_type, peer_id, expires_at)
    WHERE expires_at IS NOT NULL AND NOT deleted;

-- After how long new messages of a chat expire, on the owner's side, and when to look for those that have. A chat whose
-- messages are kept again (period 0) has its row until the last one with a time is gone. Leased as sign_ups is.
CREATE TABLE history_ttl (
    bucket        smallint NOT NULL,
    owner_user_id bigint   NOT NULL,
    peer_type     smallint NOT NULL,
    peer_id       bigint   NOT NULL,
    period_s      integer  NOT NULL,
    set_at        integer  NOT NULL,
    due_at        integer  NOT NULL,
    leased_until_ms bigint NOT NULL DEFAULT 0,
    leased_by     text,
    PRIMARY KEY (bucket, owner_user_id, peer_type, peer_id)
) PARTITION BY HASH (bucket);
-- telesrv:partitions history_ttl

CREATE INDEX history_ttl_due ON history_ttl (bucket, due_at);

-- The period that chats which the owner begins start with.
CREATE TABLE default_history_ttl (
    owner_user_id bigint  NOT NULL PRIMARY KEY,
    period_s      integer NOT NULL
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions default_history_ttl

-- Messages that are sent at their time. State 0 waits, 1 was sent, 2 was deleted, 3 could not be sent; rows stay, so that
-- a repeat finds what it made. Leased as sign_ups is, while it is on its way. due_date is schedule_date, but for those that
-- wait until the other side is online: the owner sees 0x7ffffffe as their date, and they are due when it came.
CREATE TABLE scheduled_messages (
    bucket          smallint NOT NULL,
    owner_user_id   bigint   NOT NULL,
    scheduled_id    integer  NOT NULL CHECK (scheduled_id > 0),
    random_id       bigint   NOT NULL CHECK (random_id <> 0),
    digest          bytea    NOT NULL,
    peer_type       smallint NOT NULL,
    peer_id         bigint   NOT NULL,
    schedule_date   integer  NOT NULL,
    due_date        integer  NOT NULL,
    text            text     NOT NULL,
    entities        jsonb,
    silent          boolean  NOT NULL,
    noforwards      boolean  NOT NULL,
    reply_to_box_id integer,
    reply_quote     jsonb,
    fwd             jsonb,
    edit_date       integer,
    state           smallint NOT NULL DEFAULT 0,
    leased_until_ms bigint   NOT NULL DEFAULT 0,
    leased_by       text,
    PRIMARY KEY (bucket, owner_user_id, scheduled_id),
    UNIQUE (bucket, owner_user_id, random_id)
) PARTITION BY HASH (bucket);
-- telesrv:partitions scheduled_messages

CREATE INDEX scheduled_messages_due ON scheduled_messages (bucket, due_date) WHERE state = 0;
CREATE INDEX scheduled_messages_chat ON scheduled_messages (bucket, owner_user_id, peer_type, peer_id, scheduled_id)
    WHERE state = 0;

-- Who has messages that wait until an account is online; by that account, whose bucket it is.
CREATE TABLE online_waits (
    bucket        smallint NOT NULL,
    user_id       bigint   NOT NULL,
    owner_user_id bigint   NOT NULL,
    waits_since   integer  NOT NULL,
    PRIMARY KEY (bucket, user_id, owner_user_id)
) PARTITION BY HASH (bucket);
-- telesrv:partitions online_waits
