-- Notes that an account is online; the time only moves forward.
-- KEYS[1]  string "online_until last_persisted", both s
-- ARGV[1]  online until, s
-- ARGV[2]  now, s
-- ARGV[3]  how often last_seen_at goes to PostgreSQL, s
-- ARGV[4]  how long to keep the key, ms
-- Returns 1 when last_seen_at should now go to PostgreSQL, else 0.
local until_s, now = tonumber(ARGV[1]), tonumber(ARGV[2])
local old_until, persisted = 0, 0
local value = redis.call('GET', KEYS[1])
if value then
  local a, b = string.match(value, '^(%d+) (%d+)$')
  old_until, persisted = tonumber(a) or 0, tonumber(b) or 0
end
if old_until > until_s then
  until_s = old_until
end
local due = 0
if now - persisted >= tonumber(ARGV[3]) or persisted > now then
  persisted, due = now, 1
end
redis.call('SET', KEYS[1], string.format('%.0f %.0f', until_s, persisted), 'PX', ARGV[4])
return due
