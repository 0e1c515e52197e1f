-- Takes a node out, if the holder of its lease is still the one that leaves; returns 1, or 0 when it is not.
-- KEYS[1]  node:{node}, the holder of its lease
-- KEYS[2]  nodes, a sorted set of nodes by when they expire
-- ARGV[1]  the node
-- ARGV[2]  the holder that leaves
if redis.call('GET', KEYS[1]) ~= ARGV[2] then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
