-- Takes one try at a login code, before the code is compared.
-- KEYS[1]  hash: hash (digest of phone_code_hash), code (digest), expires_at (s), tries_left, resends_left,
--          verified_until (s; once the code was given rightly)
-- ARGV[1]  now, s
-- Returns {hash, code} when there is a try to take; nothing when the code ran out or was used up.
local row = redis.call('HMGET', KEYS[1], 'hash', 'code', 'expires_at')
if not row[1] or not row[3] or tonumber(ARGV[1]) >= tonumber(row[3]) then
  return false
end
if redis.call('HINCRBY', KEYS[1], 'tries_left', -1) < 0 then
  return false
end
return {row[1], row[2]}
