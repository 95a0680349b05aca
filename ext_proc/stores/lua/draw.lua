-- Let a call go to its Backend, or tell how long it has to wait: the sums of ext_proc/providers/pacing.py, on the
-- server's time in whole microseconds. KEYS are the Backend's two windows (of requests, of tokens), the places of
-- calls at the same time, and who has asked lately. A window is a packed flat list: begun, newest, amount of each
-- slice. The words are the call's name, its processor's, how long a place lasts unless it is renewed (us); requests
-- and their limit, tokens and their limit, the limit of places; the longest distance that is borne (us); and
-- requests and tokens that went while nobody could be asked. A limit below 0 is none.
-- Returns the time, for how long to wait (us), for what (1: requests, 2: tokens, 3: a place), whether it would fit
-- (1), and how many processors have asked lately.
local words = {}
for word in string.gmatch(ARGV[1], '%S+') do
  words[#words + 1] = word
end
local SPAN, SLICE, KEEP_MS, MINUTE = 60250000, 500000, 62000, 60000000
local FREE, HASTE, FARTHEST = 3, 1.1, 2000000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local name, owner, lease = words[1], words[2], tonumber(words[3])
local places, most = tonumber(words[8]), math.min(tonumber(words[9]), FARTHEST)

-- Returns what of a window still counts, and how much that is.
local function load(key)
  local raw = redis.call('GET', key)
  local known, stored = false, nil
  if raw then
    known, stored = pcall(cmsgpack.unpack, raw)
  end
  local window, used = {}, 0
  if known and type(stored) == 'table' then
    for i = 1, #stored - 2, 3 do
      local begun, newest, amount = math.min(stored[i], now), math.min(stored[i + 1], now), stored[i + 2]
      if newest + SPAN > now then
        local n = #window
        window[n + 1], window[n + 2], window[n + 3] = begun, newest, amount
        used = used + amount
      end
    end
  end
  return window, used
end

local function save(key, window)
  redis.call('SET', key, cmsgpack.pack(window), 'PX', KEEP_MS)
end

local function add(window, amount)
  local n = #window
  if n > 0 and now - window[n - 2] < SLICE then
    window[n - 1], window[n] = now, window[n] + amount
  else
    window[n + 1], window[n + 2], window[n + 3] = now, now, amount
  end
end

-- Returns when `amount` more fit into `limit`, 0 for at once.
local function fits_at(window, used, amount, limit)
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

-- Returns when `amount` more should go, 0 for at once.
local function paced_until(window, used, amount, limit)
  if #window == 0 or used * FREE < limit or amount * MINUTE > most * limit then
    return 0
  end
  local left, distance = limit - used, 0
  for i = 1, #window, 3 do
    if left <= 0 then
      return 0
    end
    distance = math.max(distance, amount * (window[i + 1] + SPAN - now) / left)
    left = left + window[i + 2]
  end
  local at = window[#window - 1] + math.min(math.floor(distance / HASTE), most)
  return at > now and at or 0
end

local windows, amounts, limits, changed, at, why, fits = {}, {}, {}, {}, 0, 0, 1
for rate = 1, 2 do
  local window, used = load(KEYS[rate])
  local amount, limit, owed =
    tonumber(words[2 + 2 * rate]), tonumber(words[3 + 2 * rate]), tonumber(words[9 + rate])
  if owed > 0 then
    add(window, owed)
    used = used + owed
    changed[rate] = true
  end
  if limit >= 0 and amount > 0 then
    local full = fits_at(window, used, amount, limit)
    local go = full > 0 and full or paced_until(window, used, amount, limit)
    if go > at then
      at, why, fits = go, rate, full > 0 and 0 or 1
    end
  end
  windows[rate], amounts[rate], limits[rate] = window, amount, limit
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - MINUTE)
redis.call('ZADD', KEYS[4], now, owner)
redis.call('PEXPIRE', KEYS[4], KEEP_MS)
local askers = redis.call('ZCARD', KEYS[4])
local wait = at > 0 and math.max(at - now, 1) or 0
if wait == 0 and places >= 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
  if redis.call('ZCARD', KEYS[3]) >= places then
    wait, why, fits = 250000, 3, 0
  else
    redis.call('ZADD', KEYS[3], now + lease, name)
    redis.call('PEXPIRE', KEYS[3], math.ceil(lease / 1000))
  end
end
for rate = 1, 2 do
  if wait == 0 and amounts[rate] > 0 and limits[rate] >= 0 then
    add(windows[rate], amounts[rate])
    changed[rate] = true
  end
  if changed[rate] then
    save(KEYS[rate], windows[rate])
  end
end
return string.format('%.0f %.0f %d %d %d', now, wait, why, fits, askers)
