-- Leave a Backend alone. KEYS[1] is there while it cools; ARGV are its name, for how long (ms), the channel on
-- which all hear of it, and who says so. A longer time that is known already stands.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  redis.call('PUBLISH', ARGV[3], ARGV[4] .. ' ' .. ARGV[2] .. ' ' .. ARGV[1])
end
return ''
