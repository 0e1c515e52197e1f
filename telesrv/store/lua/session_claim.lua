-- Makes a node the owner of a session; returns {"node mark" of before or false, the state left for it or false}.
-- The state is taken: nobody gets it a second time.
-- KEYS[1]  session:{auth_key_id}:{session_id}, a string "node mark"
-- KEYS[2]  state:{auth_key_id}:{session_id}, an exported session
-- ARGV[1]  the claiming node
-- ARGV[2]  seconds the key lasts
local old = redis.call('GET', KEYS[1])
local mark = '0'
if old then
    mark = string.match(old, '%S+ (%S+)')
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. mark, 'EX', ARGV[2])
local state = redis.call('GET', KEYS[2])
redis.call('UNLINK', KEYS[2])
return {old, state}
