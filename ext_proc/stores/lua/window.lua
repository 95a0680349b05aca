-- What the scripts of limits begin with: the sums of ext_proc/limits/window.py, on the server's time in whole
-- microseconds. A window is a flat list: begun, newest, amount of each slice. An account's two windows, of
-- requests and of tokens, are one value, which lasts a little longer than it counts.
-- ARGV[1] holds all arguments, and what is returned all numbers, as words with spaces between: for a client one
-- text is quicker to write and to read than dozens.
local words = {}
for word in string.gmatch(ARGV[1], '%S+') do
  words[#words + 1] = word
end
local SPAN, SLICE, KEEP_MS = 60000000, 1000000, 62000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- Let go what is a minute old; returns what is left, how much it is, and whether the clock was put back.
local function pass_time(window)
  local left, used, count = {}, 0, #window
  local put_back = count > 0 and window[count - 1] > now
  for i = 1, count, 3 do
    if window[i + 1] + SPAN > now then
      local begun, newest = window[i], window[i + 1]
      if put_back then
        begun, newest = math.min(begun, now), math.min(newest, now)
      end
      local n = #left
      left[n + 1], left[n + 2], left[n + 3] = begun, newest, window[i + 2]
      used = used + window[i + 2]
    end
  end
  return left, used, put_back
end

-- Returns the windows of an account, what is used of each, and whether they have to be saved in any case. What
-- cannot be read counts for nothing.
local function load(key)
  local raw = redis.call('GET', key)
  local known, windows = false, nil
  if raw then
    known, windows = pcall(cmsgpack.unpack, raw)
  end
  if not known or type(windows) ~= 'table' or #windows ~= 2 then
    windows = {{}, {}}
  end
  local requests, requests_used, one = pass_time(windows[1])
  local tokens, tokens_used, other = pass_time(windows[2])
  return {requests, tokens}, {requests_used, tokens_used}, one or other
end

local function save(key, windows)
  redis.call('SET', key, cmsgpack.pack(windows), 'PX', KEEP_MS)
end

-- Returns when `amount` more fit into `limit`, 0 for at once. A limit below 0 is none.
local function fits_at(window, used, amount, limit)
  if limit < 0 or amount == 0 then
    return 0
  end
  local over = used + math.min(amount, limit) - limit
  if over <= 0 then
    return 0
  end
  local newest = 0
  for i = 1, #window, 3 do
    over = over - window[i + 2]
    newest = window[i + 1]
    if over <= 0 then
      break
    end
  end
  return newest + SPAN
end

local function add(window, amount)
  local n = #window
  if n > 0 and now - window[n - 2] < SLICE then
    window[n - 1] = now
    window[n] = window[n] + amount
  else
    window[n + 1], window[n + 2], window[n + 3] = now, now, amount
  end
end

local function take_back(window, at, amount)
  for i = #window - 2, 1, -3 do
    if window[i] <= at then
      if at <= window[i + 1] then
        window[i + 2] = window[i + 2] - math.min(amount, window[i + 2])
      end
      return
    end
  end
end

-- Returns when nothing will be used any more, 0 for at once.
local function full_again(window, used)
  return used > 0 and window[#window - 1] + SPAN or 0
end
