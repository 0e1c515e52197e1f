-- Counts one request against a fixed window that begins with its first request.
-- KEYS[1]  hash: start (ms), count
-- ARGV[1]  now, ms
-- ARGV[2]  window, ms
-- ARGV[3]  limit
-- ARGV[4]  cost of this request; negative gives back
-- Returns 0 when it may pass (and was counted), else after how many ms to try again (and was not).
local now, window, limit, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local row = redis.call('HMGET', KEYS[1], 'start', 'count')
local start, count = tonumber(row[1]), tonumber(row[2])
if not start or not count or now >= start + window or now < start - window then
  start, count = now, 0
end
if count + cost > limit then
  return math.max(1, start + window - now)
end
redis.call('HSET', KEYS[1], 'start', string.format('%.0f', start), 'count', string.format('%.0f', math.max(0, count + cost)))
redis.call('PEXPIRE', KEYS[1], math.ceil(window) + 60000)
return 0
