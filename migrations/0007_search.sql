-- What the texts of an account's messages begin words with, built beside the writes, not in them.

-- A term stands in one or more of the 64 messages of a segment: box_id / 64. A text is looked at before it is answered, so
-- that a term may outlive the text that had it.
CREATE TABLE search_terms (
    owner_user_id bigint  NOT NULL,
    term          text    COLLATE "C" NOT NULL,
    segment       integer NOT NULL,
    PRIMARY KEY (owner_user_id, term, segment)
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions search_terms

-- The terms of every message up to box_id are there; those of later ones may be.
CREATE TABLE search_marks (
    owner_user_id bigint  NOT NULL PRIMARY KEY,
    box_id        integer NOT NULL
) PARTITION BY HASH (owner_user_id);
-- telesrv:partitions search_marks
