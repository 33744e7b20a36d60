-- Looks for pods that are not in their right place, a bounded number at a time. Part of every
-- sweep.
--
-- @arg fence: see lib/fence.lua
-- @arg asked_at: see lib/sweep_step.lua
-- @arg what: MEND_DOUBTS: the pods that are in doubt already; MEND_ALL: all pods
-- @arg cursor: of HSCAN
-- @arg limit: how many pods
-- @arg imported_at: when the last look through all calls began, 0 if there was none
--
-- Answers {next cursor, the time, pods looked at, corrected, to be looked at again soon, to be
-- looked at again after a look through all calls}.
--
-- With MEND_ALL it looks at each pod with one to four commands, and closely at those that seem
-- wrong.
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include sweep_step
-- include mend
local imported_at = tonumber(ARG.imported_at)
local is_all = ARG.what == CONST.MEND_ALL
local page = rc('HSCAN', is_all and KEY.PODS or DOUBTS, ARG.cursor, 'COUNT', ARG.limit)

local function seems_right(pod, text, stored, lease)
  local tier = string.sub(text, 1, #CONST.POD_FREE) == CONST.POD_FREE and
    string.match(text, '^[^"]+', #CONST.POD_FREE + 1)
  local max = tier and tier == stored and tier_max(tier)
  if not max then
    return false
  elseif max == 0 and lease then
    return are_known({lease})
  elseif max == 0 then
    return redis.pcall('SISMEMBER', available_key(tier), pod) == 1
  end
  local score = redis.pcall('ZSCORE', available_key(tier), pod)
  return type(score) == 'string' and tonumber(score) == rc('ZCARD', P .. 'pod:calls:' .. pod) and
    (score == '0' or are_known(some_calls(pod)))
end

local names, texts, tiers, leases = {}, {}, {}, {}
for i = 1, #page[2], 2 do
  local n = #names + 1
  names[n], texts[n] = page[2][i], page[2][i + 1]
  tiers[n], leases[n] = P .. 'pod:tier:' .. names[n], P .. 'lease:' .. names[n]
end
if is_all and names[1] then
  tiers, leases = rc('MGET', unpack(tiers)), rc('MGET', unpack(leases))
end
for i, pod in ipairs(names) do
  if not is_all or not seems_right(pod, texts[i], tiers[i], leases[i]) then
    local info = pod_record(pod)
    if not info then
      rc('HDEL', P .. 'pods:doubt', pod)
    elseif rc('SISMEMBER', P .. 'pods:out', pod) == 0 then -- sweep_pods looks at those held out
      pod_mend(pod, info, imported_at)
    end
  end
end
local answer = {page[1], string.format('%.0f', now), #names, mended, waiting, unexplained}
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
