-- Forgets all records of a session, and those to come whose numbers are drawn already.
--
-- KEYS[1]: see session.lua. ARGV: time to live in ms, how many numbers to pass over, and the number of this time.
local drawn = math.max(tonumber(redis.call('HGET', KEYS[1], 'last')) or 0, tonumber(ARGV[3]))
local last = string.format('%.0f', drawn + ARGV[2])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'last', last, 'floor', last)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {last}
