-- Give the lease at KEYS[1] back, if ARGV[1] owns it; returns 1 if so, else 0. The answer ARGV[3], if it is
-- not empty, is left at KEYS[2] for ARGV[2] ms, behind the owner's name, for those who wait for this owner.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[2], ARGV[1] .. ARGV[3], 'PX', ARGV[2])
end
redis.call('DEL', KEYS[1])
return 1
