-- include base
-- include line_call
-- include shared_calls
-- include line_marks
-- @uses assigned_key, available_key, pool_label
-- How many pods a tier with autoscaling should have, to be compared with all that it has: so many
-- that its calls, those that wait and its buffer fit on them, and those that are held out. The rule
-- is autoscale_pods() of src/core/autoscale.c. `scaling` is the end of the tier's line.
local function pods_wanted(tier, max, scaling)
  local buffer, min, most = string.match(scaling, '^ (%d+) (%d+) (%d+)$')
  local assigned, available, out = assigned_key(tier), available_key(tier), P .. 'pods:out'
  local held, per_pod = #rc('SINTER', assigned, out), math.max(1, tonumber(max))
  local waiting = HAS_LINE and line_call('SCARD', P .. 'line:first:' .. pool_label(tier)) or 0
  local calls
  if max == '0' then
    local free = redis.pcall('SCARD', available)
    calls = rc('SCARD', assigned) - held - (type(free) == 'number' and free or 0)
    -- Those that carry more than one call, from before a change of the tiers.
    for _, pod in ipairs(rc('SINTER', assigned, P .. 'pods:over')) do
      if rc('SISMEMBER', out, pod) == 0 then
        calls = calls + rc('ZCARD', P .. 'pod:calls:' .. pod) - 1
      end
    end
  else
    calls = select(3, count_shared(available, max))
  end
  local wanted = math.ceil((calls + waiting + buffer) / per_pod)
  return math.min(math.max(wanted, tonumber(min)), tonumber(most)) + held
end
