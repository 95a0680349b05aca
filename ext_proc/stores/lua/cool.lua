-- Leave a scope (a Backend, or one key of it) alone. KEYS[1] are those that cool, by when they may be asked again
-- (ms, the server's time); ARGV are its name, for how long (ms), the channel on which all hear of it, and who says
-- so. A longer time that is known already stands.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) or 0
if known < now + tonumber(ARGV[2]) then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
  -- Callers may have any number of keys; those that are ready first are told no latecomer.
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -10001)
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  redis.call('PUBLISH', ARGV[3], ARGV[4] .. ' ' .. ARGV[2] .. ' ' .. ARGV[1])
end
return ''
