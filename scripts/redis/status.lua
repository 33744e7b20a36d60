-- How many pods and calls there are. ARGV: 4 how many pods held out to look at.
-- Answers {calls, pods, number of tiers; for each tier: name, assigned, available, calls on the available ones, calls on all
-- that are listed; then for each pod held out: tier, d|s|b draining, suspended, too busy; calls}. Tiers that are no longer
-- configured come last and only while they have pods.
-- include base
-- include fresh
-- include out
local LOADS_MAX = 100
local answer = {rc('ZCARD', P .. 'calls:active'), rc('HLEN', P .. 'pods'), 0}

-- The pods of a shared tier that have room, the calls on those, and the calls on all that are listed: one step for each
-- load that occurs. As the least loaded pod is taken first, these are few.
local function count_shared(key, max)
  local available, used, calls, load = rc('ZCOUNT', key, '-inf', '(' .. max), 0, 0, '(0'
  for _ = 1, LOADS_MAX do
    local least = rc('ZRANGEBYSCORE', key, load, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not least[2] then
      break
    end
    local more = tonumber(least[2]) * rc('ZCOUNT', key, least[2], least[2])
    calls = calls + more
    if tonumber(least[2]) < tonumber(max) then
      used = used + more
    end
    load = '(' .. least[2]
  end
  return available, used, calls
end

local function add(tier, assigned, available, used, calls)
  local n = #answer
  answer[3] = answer[3] + 1
  answer[n + 1] = tier
  answer[n + 2] = assigned
  answer[n + 3] = available
  answer[n + 4] = used
  answer[n + 5] = calls
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
out_pods(ARGV[4], function(tier, state, load)
  local n = #answer
  answer[n + 1] = tier
  answer[n + 2] = state
  answer[n + 3] = load
end)
return answer
