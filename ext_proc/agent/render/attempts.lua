-- One attempt at a provider, as Envoy's upstream Lua filter sees it. The route's metadata says how its calls are
-- retried (`attempts.py` writes it); the dynamic metadata of the call says who stands in when they fail
-- (`transport/codec.py` writes it, see `contract/plans.py`).
--
-- On the way up a stand-in gets its own host, path and model. On the way down every form of hint becomes what
-- Envoy's router understands: `x-outrigger-retry` on an answer that may be tried again, `x-outrigger-wait` with
-- whole seconds; and `x-outrigger-key` for the log of attempts, as Envoy shows it none of the call's metadata.
-- Hints are read as `ext_proc/openai/ratelimits.py` reads them; one table of cases tests both.

local EPOCH_FROM, EPOCH_MS_FROM, LONGEST_S = 1e9, 1e12, 366 * 86400
local QUOTE, OPEN, BEGIN = 34, 123, 91
local READ_AT_MOST = 65536
local UNIT_S = {ns = 1e-9, us = 1e-6, ["µs"] = 1e-6, ms = 1e-3, s = 1, m = 60, h = 3600, d = 86400}
local MONTHS = {jan = 1, feb = 2, mar = 3, apr = 4, may = 5, jun = 6,
                jul = 7, aug = 8, sep = 9, oct = 10, nov = 11, dec = 12}
local MONTH_DAYS = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
local DATES = {
  {"^%a%a%a, (%d%d) (%a%a%a) (%d%d%d%d) (%d%d):(%d%d):(%d%d) [Gg][Mm][Tt]$", 1, 2, 3, 4},
  {"^%a%a%a%a%a%a+, (%d%d)-(%a%a%a)-(%d%d) (%d%d):(%d%d):(%d%d) [Gg][Mm][Tt]$", 1, 2, 3, 4},
  {"^%a%a%a (%a%a%a) ([ %d]%d) (%d%d):(%d%d):(%d%d) (%d%d%d%d)$", 2, 1, 6, 3},
}

-- Waits

local function stripped(text)
  return text and text:match("^%s*(.-)%s*$")
end

local function believable(wait_s)
  if wait_s and wait_s > 0 and wait_s <= LONGEST_S then return wait_s end
  return nil
end

local function plain_number(text)
  text = stripped(text)
  if not text then return nil end
  local whole, fraction = text:match("^%d+$"), ""
  if not whole then whole, fraction = text:match("^(%d+)%.(%d+)$") end
  if not whole or #whole > 18 or #fraction > 18 then return nil end
  return tonumber(text)
end

-- Days since 1970-01-01 (Howard Hinnant, https://howardhinnant.github.io/date_algorithms.html).
local function days_from_civil(year, month, day)
  if month <= 2 then year = year - 1 end
  local era = math.floor(year / 400)
  local of_era = year - era * 400
  local of_year = math.floor((153 * (month + (month > 2 and -3 or 9)) + 2) / 5) + day - 1
  return era * 146097 + of_era * 365 + math.floor(of_era / 4) - math.floor(of_era / 100) + of_year - 719468
end

local function epoch_s(year, month, day, hour, minute, second)
  year, month, day = tonumber(year), tonumber(month), tonumber(day)
  hour, minute, second = tonumber(hour), tonumber(minute), tonumber(second)
  if not (year and month and day and hour and minute and second) then return nil end
  if year < 1 or month < 1 or month > 12 or day < 1 or day > MONTH_DAYS[month] then return nil end
  if month == 2 and day == 29 and not (year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)) then return nil end
  if hour > 23 or minute > 59 then return nil end
  return days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
end

local function http_date(text, now_s)
  for _, form in ipairs(DATES) do
    local parts = {text:match(form[1])}
    if parts[1] then
      local day, month, year = parts[form[2]], MONTHS[parts[form[3]]:lower()], tonumber(parts[form[4]])
      if #parts[form[4]] == 2 then
        local this_year = tonumber(os.date("!%Y", now_s))
        year = year + math.floor(this_year / 100) * 100
        if year > this_year + 50 then year = year - 100 end
      end
      local second = math.min(tonumber(parts[form[5] + 2]), 59)
      return epoch_s(year, month, day, parts[form[5]], parts[form[5] + 1], second)
    end
  end
  return nil
end

local function iso_time(text)
  local date, rest = text:match("^(%d%d%d%d%-%d%d%-%d%d)(.*)$")
  if not date then return nil end
  local year, month, day = date:match("(%d+)%-(%d+)%-(%d+)")
  if rest == "" then return epoch_s(year, month, day, 0, 0, 0) end
  local hour, minute, tail = rest:match("^[Tt ](%d%d):(%d%d)(.*)$")
  if not hour then return nil end
  local second, zone = tail:match("^:(%d%d)(.*)$")
  local fraction = 0
  if second then
    local digits, after = zone:match("^[.,](%d+)(.*)$")
    if digits then fraction, zone = tonumber("0." .. digits), after end
  else
    second, zone = 0, tail
  end
  if tonumber(second) > 59 then return nil end
  local offset = 0
  if zone ~= "" and zone ~= "Z" and zone ~= "z" then
    local sign, hours, minutes = zone:match("^([+-])(%d%d):?(%d%d)$")
    if not sign then return nil end
    offset = (tonumber(hours) * 3600 + tonumber(minutes) * 60) * (sign == "-" and -1 or 1)
  end
  local at = epoch_s(year, month, day, hour, minute, second)
  return at and at + fraction - offset
end

local function duration_s(text)
  local total, at = 0, 1
  while at <= #text do
    local number, unit, after = text:match("^(%d+%.?%d*)([a-zµ]+)()", at)
    -- The longest unit that the text goes on with: `1m500ms` has `m` and then a digit.
    if not number or number:sub(-1) == "." or not UNIT_S[unit] then return nil end
    local whole, fraction = number:match("^(%d+)%.?(%d*)$")
    if #whole > 12 or #fraction > 12 then return nil end
    total, at = total + tonumber(number) * UNIT_S[unit], after
  end
  return at > 1 and total or nil
end

local function reset_s(text, now_s)
  text = stripped(text)
  if not text or text == "" then return nil end
  local number = plain_number(text)
  if number then
    if number >= EPOCH_MS_FROM then return believable(number / 1000 - now_s) end
    return believable(number >= EPOCH_FROM and number - now_s or number)
  end
  local span = duration_s(text)
  if span then return believable(span) end
  local at = iso_time(text) or http_date(text, now_s)
  return at and believable(at - now_s)
end

local function retry_after_s(get, now_s)
  for _, name in ipairs({"retry-after-ms", "x-ms-retry-after-ms"}) do
    local milliseconds = plain_number(get(name))
    local wait_s = milliseconds and believable(milliseconds / 1000)
    if wait_s then return wait_s end
  end
  local text = stripped(get("retry-after"))
  if not text then return nil end
  local number = plain_number(text)
  if number then return believable(number) end
  local at = http_date(text, now_s)
  return at and believable(at - now_s)
end

local function first(get, names, read)
  for _, name in ipairs(names) do
    local found = read(get(name))
    if found then return found end
  end
  return nil
end

local function refusal_wait_s(get, now_s)
  local wait_s = retry_after_s(get, now_s)
  if wait_s then return wait_s end
  local function reset(text) return reset_s(text, now_s) end
  local requests = first(get, {"x-ratelimit-reset-requests", "anthropic-ratelimit-requests-reset", "x-ratelimit-reset"}, reset)
  local tokens = first(get, {"x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-reset"}, reset)
  local left_requests = first(get, {"x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining", "x-ratelimit-remaining"}, plain_number)
  local left_tokens = first(get, {"x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining"}, plain_number)
  local exhausted
  if left_requests == 0 and requests then exhausted = requests end
  if left_tokens == 0 and tokens then exhausted = math.max(exhausted or 0, tokens) end
  if exhausted then return exhausted end
  if requests and tokens then return math.min(requests, tokens) end
  return requests or tokens
end

-- Bodies

-- Return where the JSON string that begins at `at` ends.
local function string_end(text, at)
  local from = at + 1
  while true do
    local stop = text:find('["\\]', from)
    if not stop then return nil end
    if text:byte(stop) == QUOTE then return stop end
    from = stop + 2
  end
end

-- Return whether the JSON string `text[at:stop]` says `key`; any letter of it may be written as an escape.
local function says(text, at, stop, key)
  if stop - at - 1 > 6 * #key then return false end
  local said = text:sub(at + 1, stop - 1)
  return said == key or said:gsub("\\u00(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end) == key
end

-- Return `text`, a JSON object, with `value` (JSON too) in the place of each text that is its member `key`.
local function with_member(text, key, value)
  local pieces, kept, depth, at = {}, 1, 0, 1
  while true do
    at = text:find('["{}%[%]]', at)
    if not at then break end
    local byte = text:byte(at)
    if byte ~= QUOTE then
      depth = depth + ((byte == OPEN or byte == BEGIN) and 1 or -1)
      at = at + 1
    else
      local stop = string_end(text, at)
      if not stop then return text end
      local begins = depth == 1 and says(text, at, stop, key) and text:match("^%s*:%s*()", stop + 1)
      at = stop + 1
      if begins and text:byte(begins) == QUOTE then
        local ends = string_end(text, begins)
        if not ends then return text end
        pieces[#pieces + 1] = text:sub(kept, begins - 1)
        pieces[#pieces + 1] = value
        kept, at = ends + 1, ends + 1
      end
    end
  end
  pieces[#pieces + 1] = text:sub(kept)
  return table.concat(pieces)
end

-- Return the body of an error, "" when it is none that can be read. Headers must be asked for anew afterwards.
local function error_text(handle)
  local length = tonumber(handle:headers():get("content-length") or "0")
  local kind = (handle:headers():get("content-type") or "application/json"):lower()
  if not length or length > READ_AT_MOST or not kind:find("json", 1, true) then return "" end
  local body = handle:body()
  return body and body:getBytes(0, math.min(body:length(), READ_AT_MOST)) or ""
end

-- Plans

local PLAN, STAND_INS, ATTEMPT, TOLD = "outrigger.plan", "outrigger.stand_ins", "outrigger.attempt", "outrigger"
-- How a body ends in which the processor asks for the usage of a stream, as the caller has not.
local ASKED = ',"stream_options":{"include_usage":true}}'

-- Leave out what is planned on the candidate of this attempt; return whether somebody else is left.
local function pass_over(handle)
  local dynamic = handle:streamInfo():dynamicMetadata()
  local plan, attempt = dynamic:get(PLAN), dynamic:get(ATTEMPT)
  if not plan or not attempt then return false end
  local groups, at = plan["priority_groups"], attempt["count"]
  if not groups or not at then return false end
  local other = at + 1
  while groups[other] and groups[other]["name"] == groups[at]["name"] do other = other + 1 end
  if not groups[other] then return false end
  local shifted = {}
  for index = 1, #groups do
    shifted[index] = groups[index <= at and index or math.min(#groups, index - at - 1 + other)]
  end
  dynamic:set(PLAN, "priority_groups", shifted)
  return true
end

-- Return a body that asks for no usage which the caller has not asked for.
local function without_usage(text)
  return text:sub(-#ASKED) == ASKED and text:sub(1, -#ASKED - 1) .. "}" or text
end

-- Give a planned attempt its host and path; return the model that it is for, nil where that stays the same.
local function turn_to(handle, dynamic, plan)
  local headers = handle:headers()
  local count = tonumber(headers:get("x-envoy-attempt-count") or "1")
  dynamic:set(ATTEMPT, "count", count)
  local group = plan["priority_groups"][count]
  local number = group and tonumber(group["name"])
  if not number or number == 0 then return nil end
  dynamic:set(ATTEMPT, "stand_in", number)
  local stand_in = dynamic:get(STAND_INS)["list"][number]
  headers:replace(":authority", stand_in["authority"])
  headers:replace(":path", stand_in["path"])
  for name, value in pairs(stand_in["told"]) do dynamic:set(TOLD, name, value) end
  return stand_in["model"]
end

function envoy_on_request(handle)
  local dynamic = handle:streamInfo():dynamicMetadata()
  local plan = dynamic:get(PLAN)
  if plan == nil then return end
  local model = plan["priority_groups"] and turn_to(handle, dynamic, plan)
  local body = (model or plan["unasked"]) and handle:body()
  if body then
    local text = body:getBytes(0, body:length())
    if plan["unasked"] then text = without_usage(text) end
    if model then text = with_member(text, "model", model) end
    body:setBytes(text)
    handle:headers():replace("content-length", tostring(#text))
  end
end

-- Why an error is not the provider's last word, by what its body says and the route asks for.
local function stand_in_wanted(terms, text)
  for _, code in ipairs(terms.stand_in_on or {}) do
    if text:find('"' .. code .. '"', 1, true) then return true end
  end
  return false
end

-- Whether the processor asks for the usage, and no attempt has been refused for it.
local function asks_usage(handle)
  local dynamic = handle:streamInfo():dynamicMetadata()
  local told = dynamic:get(TOLD)
  return told and told["asks_usage"] and not (dynamic:get(PLAN) or {})["unasked"]
end

-- Have the next attempt made without asking for the usage, and tell the processor who did not know that field.
local function ask_no_more(handle)
  local dynamic = handle:streamInfo():dynamicMetadata()
  dynamic:set(ATTEMPT, "usage_refused_by", (dynamic:get(ATTEMPT) or {})["stand_in"] or 0)
  dynamic:set(PLAN, "unasked", true)
end

local function decide(handle, terms, status)
  local text
  if (status == 400 or status == 422) and asks_usage(handle) then
    text = error_text(handle)
    if text:find("stream_options", 1, true) then
      ask_no_more(handle)
      return true
    end
  end
  local headers = handle:headers()
  local now_s = tonumber(handle:timestamp()) / 1000
  local function get(name) return headers:get(name) end
  local own_wait_s = retry_after_s(get, now_s)
  local wait_s = own_wait_s
  if status == 429 or status == 503 then wait_s = refusal_wait_s(get, now_s) end
  if wait_s and not own_wait_s then headers:replace("retry-after", tostring(math.ceil(wait_s))) end
  if (headers:get("x-should-retry") or ""):lower() == "false" then return false end
  if status == 400 or status == 403 or status == 429 then
    if status == 429 or terms.stand_in_on then
      text = text or error_text(handle)
      if status == 429 and text:find('"insufficient_quota"', 1, true) then
        handle:streamInfo():dynamicMetadata():set(ATTEMPT, "used_up", true)
        return false
      end
      if stand_in_wanted(terms, text) then return pass_over(handle) end
    end
  end
  if not (terms.statuses[tostring(status)] or (status >= 500 and terms.statuses["5xx"])) then return false end
  if wait_s and wait_s * 1000 > terms.hold_ms then return pass_over(handle) end
  return true, wait_s
end

-- Say whose key it was, where the processor has told; a provider has no word in it.
local function name_key(handle)
  local told = handle:streamInfo():dynamicMetadata():get(TOLD)
  local key = told and told["key"]
  if key then handle:headers():replace("x-outrigger-key", key) else handle:headers():remove("x-outrigger-key") end
end

function envoy_on_response(handle)
  local status = tonumber(handle:headers():get(":status"))
  if not status or status < 400 then return end
  if status == 429 then name_key(handle) end
  -- What Envoy hands out is void once a body has been waited for; the values are not.
  local route = handle:metadata()
  local terms = {
    statuses = route:get("statuses"), hold_ms = route:get("hold_ms"), stand_in_on = route:get("stand_in_on")
  }
  if terms.statuses == nil then return end
  local again, wait_s = decide(handle, terms, status)
  local headers = handle:headers()
  headers:replace("x-outrigger-retry", again and "1" or "0")
  if wait_s and wait_s > 0.05 then headers:replace("x-outrigger-wait", tostring(math.ceil(wait_s))) end
end
