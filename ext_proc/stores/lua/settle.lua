-- Correct what a call was admitted with. The words are when that was, and the call's name if its places are free
-- again, else a hyphen; then of each account: which keys it has (see `open`), how many windows are corrected, and
-- of each of those: its number, what is given back, and what is added.
local admitted_at, name, at = tonumber(words[1]), words[2], 3
while words[at] do
  local one = open(words[at])
  local count = tonumber(words[at + 1])
  at = at + 2
  for _ = 1, count do
    local window = one.windows[tonumber(words[at])]
    local back, more = tonumber(words[at + 1]), tonumber(words[at + 2])
    if back > 0 then
      take_back(window, admitted_at, back)
    end
    if more > 0 then
      add(window, more)
    end
    at = at + 3
  end
  close(one)
  if one.places and name ~= '-' then
    redis.call('ZREM', one.places, name)
  end
end
return ''
