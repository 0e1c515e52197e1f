-- Marks a login code as given rightly, unless another code took its place meanwhile; gives the try back.
-- KEYS[1]  hash as in code_try.lua
-- ARGV[1]  digest of phone_code_hash
-- ARGV[2]  digest of the code
-- ARGV[3]  until when the mark holds, s
-- ARGV[4]  how long to keep the key, ms
-- Returns 1 when marked, 0 when another code is there or none.
local row = redis.call('HMGET', KEYS[1], 'hash', 'code')
if row[1] ~= ARGV[1] or row[2] ~= ARGV[2] then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'tries_left', 1)
redis.call('HSET', KEYS[1], 'verified_until', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
