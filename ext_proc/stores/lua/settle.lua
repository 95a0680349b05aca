-- Correct what a call was admitted with. Of each account KEYS has the windows and the places of calls at the
-- same time. The words are when it was admitted, its name if its places are free again, else a hyphen; then
-- of each account: requests and tokens to give back, and tokens to add.
local at = tonumber(words[1])
for i = 1, #KEYS / 2 do
  local back = {tonumber(words[3 * i]), tonumber(words[3 * i + 1])}
  local more = tonumber(words[3 * i + 2])
  if back[1] > 0 or back[2] > 0 or more > 0 then
    local windows = load(KEYS[2 * i - 1])
    for rate = 1, 2 do
      if back[rate] > 0 then
        take_back(windows[rate], at, back[rate])
      end
    end
    if more > 0 then
      add(windows[2], more)
    end
    save(KEYS[2 * i - 1], windows)
  end
  if words[2] ~= '-' then
    redis.call('ZREM', KEYS[2 * i], words[2])
  end
end
return ''
