-- Say that a processor lives: KEYS[1] are all that do. ARGV[1] is its name, ARGV[2] how long it counts as alive
-- and places last (us), ARGV[3] whether it ends (1). The other KEYS are places; of each follows the number of
-- calls that hold one, and their names. Returns how many processors live.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local lease = tonumber(ARGV[2])
local lease_ms = math.ceil(lease / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[3] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], now + lease, ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], lease_ms)
local next = 4
for i = 2, #KEYS do
  local count = tonumber(ARGV[next])
  for j = 1, count do
    redis.call('ZADD', KEYS[i], 'XX', now + lease, ARGV[next + j])
  end
  next = next + 1 + count
  redis.call('PEXPIRE', KEYS[i], lease_ms)
end
return redis.call('ZCARD', KEYS[1])
