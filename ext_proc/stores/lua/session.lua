-- Takes records into a session, draws a number if that is asked for, and forgets what is too much.
-- Returns that number (or the last one) and, by their numbers, all records that are kept.
--
-- KEYS[1]: a hash; `last` is the last number, up to `floor` all is erased, every other field is a record's.
-- ARGV: time to live in ms, records and bytes to keep, the step between numbers, the time at which one is drawn
-- (below 0: none is); then the number and the text of each record. The arithmetic is that of ext_proc/sessions/records.py.
local key = KEYS[1]
local ttl, keep, room, step = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local last, records, numbers = 0, {}, {}
local floor = tonumber(redis.call('HGET', key, 'floor')) or 0

local function take(number, record)
  if records[number] == nil then
    numbers[#numbers + 1] = number
  end
  records[number] = record
  last = math.max(last, number)
end

local held = redis.call('HGETALL', key)
for at = 1, #held, 2 do
  if held[at] == 'last' then
    last = math.max(last, tonumber(held[at + 1]) or 0)
  elseif held[at] ~= 'floor' and tonumber(held[at]) then
    take(tonumber(held[at]), held[at + 1])
  end
end
for at = 6, #ARGV, 2 do
  if tonumber(ARGV[at]) > floor then
    take(tonumber(ARGV[at]), ARGV[at + 1])
    redis.call('HSET', key, ARGV[at], ARGV[at + 1])
  end
end
if tonumber(ARGV[5]) >= 0 then
  last = math.max(math.floor(last / step) + 1, tonumber(ARGV[5])) * step
end

table.sort(numbers, function(a, b) return a > b end)
local reply, full = {string.format('%.0f', last)}, false
for place, number in ipairs(numbers) do
  local name = string.format('%.0f', number)
  room = room - #records[number]
  full = full or place > keep or room < 0
  if full then
    redis.call('HDEL', key, name)
  else
    reply[#reply + 1] = name
    reply[#reply + 1] = records[number]
  end
end
if last > 0 then
  redis.call('HSET', key, 'last', reply[1])
  redis.call('PEXPIRE', key, ttl)
end
return reply
