-- Leaves an exported session for whoever claims it next; returns 1, or 0 when another node owns it already.
-- KEYS[1]  session:{auth_key_id}:{session_id}, a string "node mark"
-- KEYS[2]  state:{auth_key_id}:{session_id}
-- ARGV[1]  the leaving node
-- ARGV[2]  the exported session
-- ARGV[3]  seconds the state lasts
-- ARGV[4]  the msg_id mark, for an entry that was lost
-- ARGV[5]  seconds the entry lasts
local old = redis.call('GET', KEYS[1])
if old and string.match(old, '(%S+) ') ~= ARGV[1] then
    return 0
end
if not old then
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[4], 'EX', ARGV[5])
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
