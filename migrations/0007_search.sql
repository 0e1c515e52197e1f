-- What the texts of an account's messages are found by, built beside the writes, not in them.

-- The terms of the 64 messages of a segment, box_id / 64: a line feed before each. '*' stands for all terms. A text is looked at
-- before it is answered, so that a term may outlive the text that had it.
CREATE TABLE search_segments (
    owner_user_id bigint  NOT NULL,
    segment       integer NOT NULL,
    terms         text    COLLATE "C" NOT NULL,
    PRIMARY KEY (owner_user_id, segment)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions search_segments

-- The terms of every message up to box_id are there; those of later ones may be.
CREATE TABLE search_marks (
    owner_user_id bigint  NOT NULL PRIMARY KEY,
    box_id        integer NOT NULL
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions search_marks
