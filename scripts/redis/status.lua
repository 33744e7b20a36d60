-- Counts pods and calls.
--
-- @arg limit: how many pods that are held out to look at
--
-- Answers {calls, pods, calls that wait, number of tiers; for each tier: name, assigned,
-- available, calls on the available pods, calls on all listed pods, calls that wait and whose
-- chain begins with it; then for each pod that is held out: tier, POD_IS_DRAINING, POD_IS_LEAVING,
-- POD_IS_SUSPENDED or POD_IS_BUSY, calls}. Tiers that are not configured any more come last, and
-- only while they have pods.
-- include base
-- include current_tiers
-- include held_out
-- include line_call
-- include shared_calls
local answer = {rc('ZCARD', KEY.CALLS_ACTIVE), rc('HLEN', KEY.PODS),
  HAS_LINE and line_call('ZCARD', P .. 'line') or 0, 0}

local function add(tier, assigned, available, used, calls)
  local n = #answer
  answer[4] = answer[4] + 1
  answer[n + 1] = tier
  answer[n + 2] = assigned
  answer[n + 3] = available
  answer[n + 4] = used
  answer[n + 5] = calls
  answer[n + 6] = HAS_LINE and line_call('SCARD', P .. 'line:first:' .. pool_label(tier)) or 0
end

for tier, max in string.gmatch(TIERS, '\n(%S+) (%d+)') do
  local key = available_key(tier)
  if max == '0' then
    add(tier, rc('SCARD', assigned_key(tier)), rc('SCARD', key), 0, 0)
  else
    add(tier, rc('SCARD', assigned_key(tier)), count_shared(key, max))
  end
end
for _, tier in ipairs(rc('SMEMBERS', P .. 'tiers:used')) do
  if not tier_max(tier) then
    local assigned = rc('SCARD', assigned_key(tier))
    if assigned == 0 then
      rc('SREM', P .. 'tiers:used', tier)
    else
      local available = redis.pcall('SCARD', available_key(tier))
      add(tier, assigned, type(available) == 'number' and available or 0, 0, 0)
    end
  end
end
held_out_pods(ARG.limit, function(tier, state, load, is_leaving)
  local n = #answer
  answer[n + 1] = tier
  answer[n + 2] = is_leaving and CONST.POD_IS_LEAVING or state
  answer[n + 3] = load
end)
return answer
