-- Admit a call to all its accounts or to none. The words are the call's name, how long a place lasts unless it is
-- renewed (us); then of each account: which keys it has (see `open`), its limit of places, while nobody of higher
-- rank asks and when somebody does, the caller's rank, how many windows are bounded, and of each of those: its
-- number, what is claimed, the two limits, and what was admitted while nobody could be asked.
-- Returns the time, whether the call is admitted (1), and of each account: whether somebody of higher rank asks
-- (1), places taken; and of each window: what is used, when nothing is again, when the claim fits.
local ASKED_EVERY = 1000000

-- Note a caller of `rank`; returns whether one above it asked within a minute.
local function asks(key, rank)
  local times, above = {}, false
  for word in string.gmatch(redis.call('GET', key) or '', '%S+') do
    times[#times + 1] = tonumber(word) or 0
  end
  for i = 1, rank + 1 do
    times[i] = times[i] or 0
    above = above or (i <= rank and times[i] + MINUTE.span > now)
  end
  if math.abs(now - times[rank + 1]) > ASKED_EVERY then
    times[rank + 1] = now
    for i = 1, #times do
      times[i] = string.format('%.0f', times[i])
    end
    redis.call('SET', key, table.concat(times, ' '), 'PX', MINUTE.keep_ms)
  end
  return above
end

local name, lease = words[1], tonumber(words[2])
local accounts, admitted, at = {}, 1, 3
while words[at] do
  local one = open(words[at])
  local low = one.asked and asks(one.asked, tonumber(words[at + 3])) or false
  one.low, one.held, one.bounds = low and 1 or 0, 0, {}
  local count = tonumber(words[at + 4])
  if one.places then
    redis.call('ZREMRANGEBYSCORE', one.places, '-inf', now)
    one.held = redis.call('ZCARD', one.places)
    if one.held >= tonumber(words[low and at + 2 or at + 1]) then
      admitted = 0
    end
  end
  at = at + 5
  for i = 1, count do
    local window = one.windows[tonumber(words[at])]
    local amount, owed = tonumber(words[at + 1]), tonumber(words[at + 4])
    if owed > 0 then
      add(window, owed)
    end
    local fits = fits_at(window, amount, tonumber(words[low and at + 3 or at + 2]))
    if fits > 0 then
      admitted = 0
    end
    one.bounds[i] = {window = window, amount = amount, fits = fits}
    at = at + 5
  end
  accounts[#accounts + 1] = one
end
local told = {string.format('%.0f', now), admitted}
for _, one in ipairs(accounts) do
  told[#told + 1] = one.low
  told[#told + 1] = one.held
  if admitted == 1 and one.places then
    redis.call('ZADD', one.places, now + lease, name)
    redis.call('PEXPIRE', one.places, math.ceil(lease / 1000))
  end
  for _, bound in ipairs(one.bounds) do
    if admitted == 1 and bound.amount > 0 then
      add(bound.window, bound.amount)
    end
    local used = bound.window.used
    told[#told + 1] = string.format('%.0f %.0f %.0f', used, full_again(bound.window), bound.fits)
  end
  close(one)
end
return table.concat(told, ' ')
