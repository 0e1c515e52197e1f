-- Raises the msg_id mark of a session that the node owns; returns 1, or 0 when another node owns it.
-- KEYS[1]  session:{auth_key_id}:{session_id}, a string "node mark"
-- ARGV[1]  the node
-- ARGV[2]  the msg_id
-- ARGV[3]  seconds the key lasts
local old = redis.call('GET', KEYS[1])
if old then
    local node = string.match(old, '(%S+) ')
    if node ~= ARGV[1] then
        return 0
    end
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'EX', ARGV[3])
return 1
