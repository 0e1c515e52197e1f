-- Uses a login code up, if it is the one meant.
-- KEYS[1]  hash as in code_try.lua
-- ARGV[1]  digest of phone_code_hash
-- ARGV[2]  '1': only when it was given rightly
-- ARGV[3]  now, s
-- Returns 1 for the one caller who used it up, else 0.
local row = redis.call('HMGET', KEYS[1], 'hash', 'verified_until')
if row[1] ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' and (not row[2] or tonumber(ARGV[3]) >= tonumber(row[2])) then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
