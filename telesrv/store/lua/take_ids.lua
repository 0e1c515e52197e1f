-- Takes pts and box_ids for several users in one step, and notes each pts as reserved.
-- KEYS[1]       zset of reservations: member "user:last_pts:count", score the time
-- KEYS[2i]      counter of the i-th user's pts
-- KEYS[2i+1]    counter of the i-th user's box_ids
-- ARGV[1]       now, ms
-- ARGV[2]       how long a counter lives after it was restored, s
-- ARGV[3]       how many reservations were settled since the last call; they follow
-- ARGV after    three for each user: user_id, how many pts, how many box_ids; or five, when the caller looked: and
--               the least pts and the least box_id, which PostgreSQL has, or -1 where the caller did not look
-- Returns {1, last pts, last box_id, ... for each user}; or, when the caller must look, {0, places from 0 of those
-- users who have no counters}: then none were taken.
local MOST = 1000 -- of what one command is given: unpack has a limit
local now, ttl, settled = ARGV[1], ARGV[2], tonumber(ARGV[3])
local users = (#KEYS - 1) / 2
local given = users > 0 and (#ARGV - 3 - settled) / users or 3
for from = 1, settled, MOST do
  redis.call('ZREM', KEYS[1], unpack(ARGV, 3 + from, 3 + math.min(from + MOST - 1, settled)))
end
local values = {}
for from = 2, #KEYS, MOST do
  for _, value in ipairs(redis.call('MGET', unpack(KEYS, from, math.min(from + MOST - 1, #KEYS)))) do
    values[#values + 1] = value
  end
end
local missed = { 0 }
for i = 1, users do
  local looked = given == 5 and tonumber(ARGV[3 + settled + (i - 1) * given + 4]) >= 0
  if not (looked or values[2 * i - 1] and values[2 * i]) then
    missed[#missed + 1] = i - 1
  end
end
if #missed > 1 then
  return missed
end
local function take(key, value, number, least)
  local had = tonumber(value or 0)
  if value and had >= least then
    return number == 0 and had or redis.call('INCRBY', key, number)
  end
  local last = math.max(had, least) + number
  redis.call('SET', key, string.format('%.0f', last), 'EX', ttl)
  return last
end
local answer, notes = { 1 }, {}
for i = 1, users do
  local base = 3 + settled + (i - 1) * given
  local number = tonumber(ARGV[base + 2])
  local least_pts, least_box = 0, 0
  if given == 5 then
    least_pts, least_box = tonumber(ARGV[base + 4]), tonumber(ARGV[base + 5])
  end
  local pts = take(KEYS[2 * i], values[2 * i - 1], number, least_pts)
  answer[2 * i] = pts
  answer[2 * i + 1] = take(KEYS[2 * i + 1], values[2 * i], tonumber(ARGV[base + 3]), least_box)
  if number > 0 then
    notes[#notes + 1] = now
    notes[#notes + 1] = ARGV[base + 1] .. ':' .. string.format('%.0f', pts) .. ':' .. ARGV[base + 2]
  end
end
for from = 1, #notes, MOST do
  redis.call('ZADD', KEYS[1], unpack(notes, from, math.min(from + MOST - 1, #notes)))
end
return answer
