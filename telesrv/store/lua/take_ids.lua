-- Takes pts and box_ids for several users in one step, and notes each pts as reserved.
-- KEYS[1]       zset of reservations: member "user:last_pts:count", score the time
-- KEYS[2i]      counter of the i-th user's pts
-- KEYS[2i+1]    counter of the i-th user's box_ids
-- ARGV[1]       now, ms
-- ARGV[2]       how long a counter lives unused, s
-- ARGV[3...]    five for each user: user_id, how many pts, how many box_ids, least pts, least box_id;
--               the least ones are what PostgreSQL has, or -1 when the caller did not look
-- ARGV after    reservations that were settled since the last call
-- Returns, for each user, {last pts, last box_id} as text, or {} when the caller must look; if any must, none were taken.
local now, ttl = ARGV[1], ARGV[2]
local values, answer, missed = {}, {}, false
local users = (#KEYS - 1) / 2
for i = 3 + users * 5, #ARGV do
  redis.call('ZREM', KEYS[1], ARGV[i])
end
for i = 1, users do
  local base = 2 + (i - 1) * 5
  local pts, box = redis.call('GET', KEYS[2 * i]), redis.call('GET', KEYS[2 * i + 1])
  local least_pts, least_box = tonumber(ARGV[base + 4]), tonumber(ARGV[base + 5])
  if (not pts or not box) and least_pts < 0 then
    answer[i] = {}
    missed = true
  else
    values[i] = {
      math.max(tonumber(pts or 0), least_pts, 0) + tonumber(ARGV[base + 2]),
      math.max(tonumber(box or 0), least_box, 0) + tonumber(ARGV[base + 3]),
    }
    answer[i] = { string.format('%.0f', values[i][1]), string.format('%.0f', values[i][2]) }
  end
end
if missed then
  return answer
end
for i = 1, users do
  local base = 2 + (i - 1) * 5
  redis.call('SET', KEYS[2 * i], answer[i][1], 'EX', ttl)
  redis.call('SET', KEYS[2 * i + 1], answer[i][2], 'EX', ttl)
  if tonumber(ARGV[base + 2]) > 0 then
    redis.call('ZADD', KEYS[1], now, ARGV[base + 1] .. ':' .. answer[i][1] .. ':' .. ARGV[base + 2])
  end
end
return answer
