-- Stores a new login code in the place of any earlier one of the same phone and key.
-- KEYS[1]  hash as in code_try.lua
-- ARGV[1]  digest of phone_code_hash
-- ARGV[2]  digest of the code
-- ARGV[3]  expires_at, s
-- ARGV[4]  tries
-- ARGV[5]  resends
-- ARGV[6]  how long to keep the key, ms
-- Returns 1.
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'hash', ARGV[1], 'code', ARGV[2], 'expires_at', ARGV[3], 'tries_left', ARGV[4],
  'resends_left', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return 1
