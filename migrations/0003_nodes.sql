-- The processes that serve clients, each under a number of its own for as long as its lease lasts. Few rows.

CREATE TABLE nodes (
    node smallint NOT NULL PRIMARY KEY CHECK (node BETWEEN 1 AND 1023),
    holder text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    connections integer NOT NULL DEFAULT 0,
    sessions integer NOT NULL DEFAULT 0,
    started_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    -- Message ids of this number may name times up to this one, by the clock of whoever held it.
    used_until_ms bigint NOT NULL
);

-- Whether the holder of a lease lives.
CREATE INDEX nodes_holder ON nodes (holder);
