-- Makes a node the owner of a session; returns "node mark" of before, or false.
-- KEYS[1]  session:{auth_key_id}:{session_id}, a string "node mark"
-- ARGV[1]  the claiming node
-- ARGV[2]  seconds the key lasts
local old = redis.call('GET', KEYS[1])
local mark = '0'
if old then
    mark = string.match(old, '%S+ (%S+)')
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. mark, 'EX', ARGV[2])
return old
