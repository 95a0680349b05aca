-- Let the lease at KEYS[1] last ARGV[2] ms from now, if ARGV[1] owns it. Returns 1 if so, else 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
