-- Take the lease at KEYS[1] for ARGV[1] (the owner) and ARGV[2] ms, unless somebody has it.
-- Returns its owner, the one before or the new one.
local owner = redis.call('GET', KEYS[1])
if owner then
  return owner
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
