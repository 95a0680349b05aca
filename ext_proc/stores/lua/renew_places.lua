-- Say that calls still hold their places. KEYS[1] are the places; the words are how long they last (us), then the
-- calls' names.
local words = {}
for word in string.gmatch(ARGV[1], '%S+') do
  words[#words + 1] = word
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local lease = tonumber(words[1])
for i = 2, #words do
  redis.call('ZADD', KEYS[1], 'XX', now + lease, words[i])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(lease / 1000))
return ''
