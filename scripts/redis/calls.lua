-- A page of calls in the order in which their leases end, or one call.
--
-- @arg expiry: the end of the lease with which the page begins; '': one call
-- @arg skip: how many calls with exactly that end to skip; or the call_sid of the one call
-- @optional limit: how many calls; for one call: it is wanted with its story, and how many times at
--   most that it left a pod
--
-- Answers {number of all calls, server's time, then for each: call_sid, pod, pool, merchant,
-- provider, allocated_at, expiry, pod's record, the field `renewed` or '', 1 if it has had a
-- connection else 0, 1 if it was granted and is not taken yet else 0, the live routers that carry
-- it}. For one call 1 and its WAITING_TEXTS follow if it waits, else 0. For a story follow the
-- number of times that the call left a pod, and the texts of lib/past.lua, the newest first. If
-- the one call does not exist, and in a story, its last refusal follows, if it is known: see
-- release_and_allocate.lua, from `unreadable` on; and lib/keep_refusal.lua.
-- include base
-- include line_marks
local answer = {rc('ZCARD', KEY.CALLS_ACTIVE), string.format('%.0f', now)}
local page
if ARG.expiry == '' then
  page = {ARG.skip, rc('ZSCORE', KEY.CALLS_ACTIVE, ARG.skip) or '0'}
else
  page = rc('ZRANGEBYSCORE', KEY.CALLS_ACTIVE, ARG.expiry, '+inf', 'WITHSCORES', 'LIMIT', ARG.skip,
    ARG.limit)
end
-- The routers of the field `carriers` that are alive, in the same form. As call_left() in
-- lib/calls.lua.
local is_alive = {}
local function live_carriers(carriers)
  local names = {}
  for name in string.gmatch(carriers or '', '[^,]+') do
    if is_alive[name] == nil then
      is_alive[name] = rc('EXISTS', P .. 'carrier:' .. name) == 1
    end
    if is_alive[name] then
      names[#names + 1] = name
    end
  end
  return table.concat(names, ',')
end

-- The refusal that lib/keep_refusal.lua has stored. A text that was made by hand counts as none.
local function add_refusal(call_sid)
  local is_read, refusal = pcall(cjson.decode, rc('GET', P .. 'refused:' .. call_sid) or '')
  for i = 2, is_read and type(refusal) == 'table' and #refusal or 0 do
    answer[#answer + 1] = type(refusal[i]) == 'number' and refusal[i] or tostring(refusal[i])
  end
end

-- What lib/past.lua has stored of the call. A list that was made by hand counts as none.
local function add_past(call_sid)
  local places = redis.pcall('LPOS', KEY.CALLS_ENDED, call_sid, 'RANK', '-1', 'COUNT', ARG.limit,
    'MAXLEN', CONST.PAST_CALLS_MAX * 2)
  answer[#answer + 1] = #places
  for _, place in ipairs(places) do
    answer[#answer + 1] = rc('LINDEX', KEY.CALLS_ENDED, place + 1) or ''
  end
end

local function add_waiting(call_sid, pod)
  HAS_LINE = not pod and rc('EXISTS', P .. 'line') == 1
  answer[#answer + 1] = 0
  if HAS_LINE then
    -- include waiting_texts
    local w = waiting_get(call_sid)
    if w then
      answer[#answer] = 1
      waiting_texts(answer, call_sid, w)
    end
  end
end

for i = 1, #page, 2 do
  -- As call_record() in lib/calls.lua.
  local record = rc('HMGET', P .. 'call:' .. page[i], 'pod_name', 'source_pool', 'merchant_id',
    'provider', 'allocated_at', 'reseller_id', 'renewed', 'connected', 'carriers', 'granted')
  local n = #answer
  local expiry = page[i + 1]
  if record[1] and expiry == '0' then
    -- include calls
    expiry = string.format('%.0f', call_expiry(page[i], record[1]))
  end
  if not string.find(expiry, '^%d+$') then
    -- Made by hand.
    expiry = string.format('%.0f', math.max(0, math.min(tonumber(expiry) or 0, 1e15)))
  end
  answer[n + 1] = page[i]
  answer[n + 2] = record[1] or ''
  answer[n + 3] = record[2] or ''
  answer[n + 4] = record[3] or record[6] or ''
  answer[n + 5] = record[4] or ''
  answer[n + 6] = record[5] or '0'
  answer[n + 7] = expiry
  answer[n + 8] = record[1] and rc('HGET', KEY.PODS, record[1]) or ''
  answer[n + 9] = record[7] or ''
  answer[n + 10] = record[8] and 1 or 0
  answer[n + 11] = record[10] and 1 or 0
  answer[n + 12] = live_carriers(record[9])
  if ARG.expiry == '' then
    add_waiting(page[i], record[1])
  end
  if ARG.expiry == '' and ARG.limit then
    add_past(page[i])
  end
  if ARG.expiry == '' and (ARG.limit or not record[1] or expiry == '0') then
    add_refusal(page[i])
  end
end
return answer
