-- What the scripts of limits begin with: the sums of ext_proc/limits/window.py, on the server's time in whole
-- microseconds. Two windows are one value, which lasts a little longer than it counts: what is used of each, the
-- bytes of the first one's slices; then begun, newest, amount of each slice, numbers of 8 bytes. So only the
-- slices that are looked at are read, however many there are.
-- ARGV[1] holds all arguments, and what is returned all numbers, as words with spaces between: for a client one
-- text is quicker to write and to read than dozens.
local words = {}
for word in string.gmatch(ARGV[1], '%S+') do
  words[#words + 1] = word
end
local HEAD, SLICE_BYTES = 20, 24
-- Of a minute's windows and of a day's: how long they count, how long a slice is, how long they are kept.
local MINUTE = {span = 60000000, slice = 1000000, keep_ms = 62000}
local DAY = {span = 86400000000, slice = 1200000000, keep_ms = 87602000}
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- Let go what is over; a clock that was put back makes nothing last longer than a span. The newest slice is taken
-- out of the text, to be changed.
local function pass_time(window, span)
  local slices = window.slices
  local count = #slices
  if count == 0 then
    window.used = 0
    return
  end
  local begun, newest, amount = struct.unpack('>ddd', slices, count - 23)
  if newest > now then
    local put_back = {}
    for i = 1, count, SLICE_BYTES do
      local from, to, held = struct.unpack('>ddd', slices, i)
      put_back[#put_back + 1] = struct.pack('>ddd', math.min(from, now), math.min(to, now), held)
    end
    slices, begun, newest = table.concat(put_back), math.min(begun, now), now
    window.changed = true
  end
  if newest + span <= now then
    window.used, window.slices = 0, ''
    return
  end
  local gone, last = 0, count - SLICE_BYTES
  while gone < last do
    local _, to, held = struct.unpack('>ddd', slices, gone + 1)
    if to + span > now then
      break
    end
    window.used = window.used - held
    gone = gone + SLICE_BYTES
  end
  window.slices = string.sub(slices, gone + 1, last)
  window.begun, window.newest, window.amount = begun, newest, amount
end

-- Returns the two windows under a key. What cannot be read counts for nothing.
local function load(key, kind)
  local windows = {{used = 0, slices = ''}, {used = 0, slices = ''}}
  local raw = redis.call('GET', key)
  if raw and #raw >= HEAD then
    local one, other, bytes = struct.unpack('>ddI4', raw)
    local rest = #raw - HEAD
    if one >= 0 and other >= 0 and bytes <= rest and bytes % SLICE_BYTES == 0 and rest % SLICE_BYTES == 0 then
      windows[1] = {used = one, slices = string.sub(raw, HEAD + 1, HEAD + bytes)}
      windows[2] = {used = other, slices = string.sub(raw, HEAD + bytes + 1)}
    end
  end
  for i = 1, 2 do
    windows[i].kind = kind
    pass_time(windows[i], kind.span)
  end
  return windows
end

local function whole(window)
  if not window.newest then
    return window.slices
  end
  return window.slices .. struct.pack('>ddd', window.begun, window.newest, window.amount)
end

local function save(key, windows)
  local one, other = windows[1], windows[2]
  local slices = whole(one)
  local head = struct.pack('>ddI4', one.used, other.used, #slices)
  redis.call('SET', key, head .. slices .. whole(other), 'PX', one.kind.keep_ms)
end

-- Returns when `amount` more fit into `limit`, 0 for at once.
local function fits_at(window, amount, limit)
  local over = window.used + math.min(amount, limit) - limit
  if amount == 0 or over <= 0 then
    return 0
  end
  for i = 1, #window.slices, SLICE_BYTES do
    local _, newest, held = struct.unpack('>ddd', window.slices, i)
    over = over - held
    if over <= 0 then
      return newest + window.kind.span
    end
  end
  return window.newest + window.kind.span
end

local function add(window, amount)
  window.used = window.used + amount
  window.changed = true
  if not window.newest then
    window.begun, window.amount = now, 0
  elseif now - window.begun >= window.kind.slice then
    window.slices = whole(window)
    window.begun, window.amount = now, 0
  end
  window.newest, window.amount = now, window.amount + amount
end

local function take_back(window, at, amount)
  if not window.newest then
    return
  end
  if window.begun <= at then
    if at <= window.newest then
      local given = math.min(amount, window.amount)
      window.amount, window.used, window.changed = window.amount - given, window.used - given, true
    end
    return
  end
  local slices = window.slices
  for i = #slices - 23, 1, -SLICE_BYTES do
    local begun, newest, held = struct.unpack('>ddd', slices, i)
    if begun <= at then
      if at <= newest then
        local given = math.min(amount, held)
        local left = struct.pack('>d', held - given)
        window.slices = string.sub(slices, 1, i + 15) .. left .. string.sub(slices, i + 24)
        window.used, window.changed = window.used - given, true
      end
      return
    end
  end
end

-- Returns when nothing will be used any more, 0 for at once.
local function full_again(window)
  return window.used > 0 and window.newest and window.newest + window.kind.span or 0
end

-- Returns an account's windows by number, 0 and 1 of a minute, 2 and 3 of a day, and takes its keys from KEYS:
-- `has` says which there are. m: windows of a minute; d: of a day; p: places; a: who asked when.
local next_key = 1
local function open(has)
  local account = {windows = {}}
  for i = 1, #has do
    local letter, key = string.sub(has, i, i), KEYS[next_key]
    next_key = next_key + 1
    if letter == 'm' then
      account.minute, account.minutes = key, load(key, MINUTE)
      account.windows[0], account.windows[1] = account.minutes[1], account.minutes[2]
    elseif letter == 'd' then
      account.day, account.days = key, load(key, DAY)
      account.windows[2], account.windows[3] = account.days[1], account.days[2]
    elseif letter == 'p' then
      account.places = key
    else
      account.asked = key
    end
  end
  return account
end

local function close(account)
  if account.minutes and (account.minutes[1].changed or account.minutes[2].changed) then
    save(account.minute, account.minutes)
  end
  if account.days and (account.days[1].changed or account.days[2].changed) then
    save(account.day, account.days)
  end
end
