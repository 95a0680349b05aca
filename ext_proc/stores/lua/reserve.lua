-- Admit a call to all its accounts or to none. Of each account KEYS has the windows and the places of calls at
-- the same time. The words are the call's name, how long a place lasts unless it is renewed (us); then of
-- each account: requests, their limit, tokens, their limit, whether it takes a place (1), the limit of places,
-- and requests and tokens that were admitted while nobody could be asked. A limit below 0 is none.
-- Returns the time, whether the call is admitted (1), and of each account: requests used, when they are none
-- again, when these fit; the same of tokens; places taken.
local name, lease = words[1], tonumber(words[2])
local accounts, admitted = {}, 1
for i = 1, #KEYS / 2 do
  local at = 2 + (i - 1) * 8
  local one = {key = KEYS[2 * i - 1], places = KEYS[2 * i], amounts = {}, limits = {}, fits = {}, held = 0}
  one.windows, one.used, one.changed = load(one.key)
  one.takes = tonumber(words[at + 5]) == 1 and tonumber(words[at + 6]) >= 0
  for rate = 1, 2 do
    one.amounts[rate] = tonumber(words[at + 2 * rate - 1])
    one.limits[rate] = tonumber(words[at + 2 * rate])
    local owed = tonumber(words[at + 6 + rate])
    if owed > 0 then
      add(one.windows[rate], owed)
      one.used[rate] = one.used[rate] + owed
      one.changed = true
    end
    one.fits[rate] = fits_at(one.windows[rate], one.used[rate], one.amounts[rate], one.limits[rate])
    if one.fits[rate] > 0 then
      admitted = 0
    end
  end
  if one.takes then
    redis.call('ZREMRANGEBYSCORE', one.places, '-inf', now)
    one.held = redis.call('ZCARD', one.places)
    if one.held >= tonumber(words[at + 6]) then
      admitted = 0
    end
  end
  accounts[i] = one
end
local told = {now, admitted}
for _, one in ipairs(accounts) do
  if admitted == 1 then
    for rate = 1, 2 do
      if one.amounts[rate] > 0 and one.limits[rate] >= 0 then
        add(one.windows[rate], one.amounts[rate])
        one.used[rate] = one.used[rate] + one.amounts[rate]
        one.changed = true
      end
    end
    if one.takes then
      redis.call('ZADD', one.places, now + lease, name)
      redis.call('PEXPIRE', one.places, math.ceil(lease / 1000))
    end
  end
  if one.changed then
    save(one.key, one.windows)
  end
  for rate = 1, 2 do
    told[#told + 1] = one.used[rate]
    told[#told + 1] = full_again(one.windows[rate], one.used[rate])
    told[#told + 1] = one.fits[rate]
  end
  told[#told + 1] = one.held
end
for i, number in ipairs(told) do
  told[i] = string.format('%.0f', number)
end
return table.concat(told, ' ')
