-- Replaces a login code by another under the same phone_code_hash; tries used stay used.
-- KEYS[1]  hash as in code_try.lua
-- ARGV[1]  digest of phone_code_hash
-- ARGV[2]  digest of the new code
-- ARGV[3]  now, s
-- ARGV[4]  expires_at of the new code, s
-- ARGV[5]  how long to keep the key, ms
-- Returns 1 when replaced, 0 when there is no such code, it is used up, or it was replaced too often.
local row = redis.call('HMGET', KEYS[1], 'hash', 'tries_left', 'resends_left', 'expires_at')
if row[1] ~= ARGV[1] or tonumber(ARGV[3]) >= tonumber(row[4]) then
  return 0
end
if tonumber(row[2]) <= 0 or tonumber(row[3]) <= 0 then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'resends_left', -1)
redis.call('HSET', KEYS[1], 'code', ARGV[2], 'expires_at', ARGV[4])
redis.call('HDEL', KEYS[1], 'verified_until')
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
