-- Correct what a call has drawn (see draw.lua). KEYS are the Backend's two windows and its places. The words are
-- when it was drawn, requests to give back (below 0: that went without asking), tokens above what was drawn (below 0:
-- to give back), and the call's name if its place is free again, else a hyphen.
local words = {}
for word in string.gmatch(ARGV[1], '%S+') do
  words[#words + 1] = word
end
local SLICE, KEEP_MS = 500000, 62000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local at = tonumber(words[1])
local more = {-tonumber(words[2]), tonumber(words[3])}
for rate = 1, 2 do
  local raw = more[rate] ~= 0 and redis.call('GET', KEYS[rate])
  local known, window = false, nil
  if raw then
    known, window = pcall(cmsgpack.unpack, raw)
  end
  if not (known and type(window) == 'table') then
    window = {}
  end
  if more[rate] ~= 0 and (more[rate] > 0 or #window > 0) then
    if more[rate] > 0 then
      local n = #window
      if n > 0 and now - window[n - 2] < SLICE then
        window[n - 1], window[n] = now, window[n] + more[rate]
      else
        window[n + 1], window[n + 2], window[n + 3] = now, now, more[rate]
      end
    else
      for i = #window - 2, 1, -3 do
        if window[i] <= at then
          if at <= window[i + 1] then
            window[i + 2] = math.max(window[i + 2] + more[rate], 0)
          end
          break
        end
      end
    end
    redis.call('SET', KEYS[rate], cmsgpack.pack(window), 'PX', KEEP_MS)
  end
end
if words[4] ~= '-' then
  redis.call('ZREM', KEYS[3], words[4])
end
return ''
