-- Messages, dialogs, the update log and the outbox. Every large table leads with its owner.

-- The shared body of a private message; (sender, random_id) makes a send happen once. sender_box_id 0: it waits to be sent
-- at its time, or was to be; no other message can take its random_id.
CREATE TABLE private_messages (
    sender_user_id   bigint   NOT NULL,
    random_id        bigint   NOT NULL CHECK (random_id <> 0),
    message_id       bigint   NOT NULL,
    peer_type        smallint NOT NULL,
    peer_id          bigint   NOT NULL,
    date             integer  NOT NULL,
    text             text     NOT NULL,
    entities         jsonb,
    media            jsonb,
    digest           bytea    NOT NULL,
    sender_box_id    integer  NOT NULL CHECK (sender_box_id >= 0),
    recipient_box_id integer  NOT NULL,
    sender_pts       integer  NOT NULL CHECK (sender_pts >= 0),
    PRIMARY KEY (sender_user_id, random_id),
    CHECK ((sender_box_id > 0) = (sender_pts > 0))
) PARTITION BY HASH (sender_user_id);
-- telesrv:partitions private_messages

-- Each account's own copy of a message; deleting keeps the row.
CREATE TABLE message_boxes (
    owner_user_id   bigint   NOT NULL,
    box_id          integer  NOT NULL CHECK (box_id > 0),
    peer_type       smallint NOT NULL,
    peer_id         bigint   NOT NULL,
    from_user_id    bigint   NOT NULL,
    outgoing        boolean  NOT NULL,
    message_id      bigint   NOT NULL,
    date            integer  NOT NULL,
    text            text     NOT NULL,
    entities        jsonb,
    silent          boolean  NOT NULL DEFAULT false,
    noforwards      boolean  NOT NULL DEFAULT false,
    reply_to_box_id integer,
    reply_quote     jsonb,
    edit_date       integer,
    media           jsonb,
    media_unread    boolean  NOT NULL DEFAULT false,
    reaction_unread boolean  NOT NULL DEFAULT false,
    peer_box_id     integer  NOT NULL DEFAULT 0,
    flags           integer  NOT NULL DEFAULT 0,
    pts             integer  NOT NULL CHECK (pts > 0),
    deleted         boolean  NOT NULL DEFAULT false,
    PRIMARY KEY (owner_user_id, box_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions message_boxes

CREATE INDEX message_boxes_history ON message_boxes (owner_user_id, peer_type, peer_id, box_id)
    WHERE NOT deleted;
CREATE INDEX message_boxes_date ON message_boxes (owner_user_id, peer_type, peer_id, date, box_id)
    WHERE NOT deleted;

-- The owner's list of chats, with the two read marks and what they leave unread.
CREATE TABLE dialogs (
    owner_user_id      bigint   NOT NULL,
    peer_type          smallint NOT NULL,
    peer_id            bigint   NOT NULL,
    top_box_id         integer  NOT NULL,
    top_date           integer  NOT NULL,
    unread_count       integer  NOT NULL DEFAULT 0,
    read_inbox_max_id  integer  NOT NULL DEFAULT 0,
    read_outbox_max_id integer  NOT NULL DEFAULT 0,
    folder_id          smallint NOT NULL DEFAULT 0,
    pinned_order       integer  NOT NULL DEFAULT 0,
    unread_mark        boolean  NOT NULL DEFAULT false,
    message_count      integer  NOT NULL DEFAULT 0,
    PRIMARY KEY (owner_user_id, peer_type, peer_id)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions dialogs

CREATE INDEX dialogs_newest
    ON dialogs (owner_user_id, top_date, top_box_id, peer_type, peer_id, folder_id, pinned_order);

-- The account-wide durable log; an event covers the pts from pts - pts_count + 1 to pts.
CREATE TABLE user_update_events (
    user_id   bigint   NOT NULL,
    pts       integer  NOT NULL CHECK (pts > 0),
    pts_count integer  NOT NULL CHECK (pts_count > 0),
    kind      smallint NOT NULL,
    date      integer  NOT NULL,
    peer_type smallint NOT NULL DEFAULT 0,
    peer_id   bigint   NOT NULL DEFAULT 0,
    box_id    integer  NOT NULL DEFAULT 0,
    random_id bigint   NOT NULL DEFAULT 0,
    payload   jsonb,
    PRIMARY KEY (user_id, pts)
) PARTITION BY HASH (user_id);
-- telesrv:partitions user_update_events

-- When a message was read by the other side: kind 3 is an outbox read.
CREATE INDEX user_update_events_outbox_read
    ON user_update_events (user_id, peer_type, peer_id, box_id) WHERE kind = 3;

-- A pts below which the account's log is known to have no hole; it lags, and is never ahead.
CREATE TABLE update_marks (
    user_id bigint  NOT NULL,
    pts     integer NOT NULL,
    PRIMARY KEY (user_id)
) PARTITION BY HASH (user_id);
-- telesrv:partitions update_marks

-- How far each device has come.
CREATE TABLE update_states (
    auth_key_id bigint  NOT NULL,
    user_id     bigint  NOT NULL,
    pts         integer NOT NULL,
    date        integer NOT NULL,
    PRIMARY KEY (auth_key_id, user_id)
);

-- Pushes that are owed. A row whose available_at is ahead is leased, by the process claimed_by, or backing off.
-- A claim changes no indexed column and finds room on its page: the index is left alone.
CREATE TABLE dispatch_outbox (
    bucket              smallint NOT NULL,
    target_user_id      bigint   NOT NULL,
    pts                 integer  NOT NULL,
    exclude_auth_key_id bigint   NOT NULL DEFAULT 0,
    exclude_session_id  bigint   NOT NULL DEFAULT 0,
    attempts            smallint NOT NULL DEFAULT 0,
    leased              boolean  NOT NULL DEFAULT false,
    claimed_by          smallint NOT NULL DEFAULT 0,
    available_at_ms     bigint   NOT NULL DEFAULT 0,
    created_at_ms       bigint   NOT NULL,
    last_error          text,
    PRIMARY KEY (bucket, target_user_id, pts)
) PARTITION BY HASH (bucket);
-- telesrv:partitions dispatch_outbox WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)

-- Pushes that failed for good, until an operator queues them again.
CREATE TABLE dispatch_outbox_failed (
    bucket              smallint NOT NULL,
    target_user_id      bigint   NOT NULL,
    pts                 integer  NOT NULL,
    exclude_auth_key_id bigint   NOT NULL,
    exclude_session_id  bigint   NOT NULL,
    attempts            smallint NOT NULL,
    failed_at_ms        bigint   NOT NULL,
    last_error          text,
    PRIMARY KEY (bucket, target_user_id, pts)
);

-- One row a bucket: a claim moves its turn, so that claims of one bucket follow each other.
CREATE TABLE outbox_buckets (
    bucket smallint NOT NULL PRIMARY KEY,
    turn   bigint   NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO outbox_buckets (bucket) SELECT generate_series(0, 63);
