-- How many pods and calls there are. ARGV: 4 how many pods held out to look at.
-- Answers {calls, pods, number of tiers; for each tier: name, assigned, available, calls on the available ones; then
-- for each pod held out: tier, d|s|b draining, suspended, too busy; calls}. Tiers that are no longer configured
-- come last and only while they have pods.
-- include base
-- include fresh
-- include out
local LOADS_MAX = 100
local answer = {rc('ZCARD', P .. 'calls:active'), rc('HLEN', P .. 'pods'), 0}

-- The calls on the available pods of a shared tier, one step for each load that occurs: as the least loaded pod
-- is taken first, these are few.
local function calls_on_available(key)
  local calls, load = 0, '(0'
  for _ = 1, LOADS_MAX do
    local least = rc('ZRANGEBYSCORE', key, load, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not least[2] then
      break
    end
    calls = calls + tonumber(least[2]) * rc('ZCOUNT', key, least[2], least[2])
    load = '(' .. least[2]
  end
  return calls
end

local function add(tier, assigned, available, calls)
  local n = #answer
  answer[3] = answer[3] + 1
  answer[n + 1] = tier
  answer[n + 2] = assigned
  answer[n + 3] = available
  answer[n + 4] = calls
end

for tier, max in string.gmatch(TIERS, '\n(%S+) (%d+)') do
  local key = available_key(tier)
  local is_shared = max ~= '0'
  add(tier, rc('SCARD', assigned_key(tier)), rc(is_shared and 'ZCARD' or 'SCARD', key),
    is_shared and calls_on_available(key) or 0)
end
for _, tier in ipairs(rc('SMEMBERS', P .. 'tiers:used')) do
  if not tier_max(tier) then
    local assigned = rc('SCARD', assigned_key(tier))
    if assigned == 0 then
      rc('SREM', P .. 'tiers:used', tier)
    else
      local available = redis.pcall('SCARD', available_key(tier))
      add(tier, assigned, type(available) == 'number' and available or 0, 0)
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
