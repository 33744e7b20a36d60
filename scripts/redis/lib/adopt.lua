-- include pods
-- include calls
-- include ended
-- The store has lost this call, or never had it: the word of the pod, or of the router that carries it, counts, as long as
-- the pod has room for it. Gives a adopted, c conflict, o over: its end is recorded. The pod is not settled.
local function call_adopt(call_sid, provider, pod, info, lease_ms, record_ms)
  if call_is_over(call_sid) then
    return 'o'
  end
  local max = tier_max(info.tier) or 0
  local has_slot = rc('GET', P .. 'lease:' .. pod) == call_sid or rc('ZSCORE', P .. 'pod:calls:' .. pod, call_sid)
  if not has_slot and pod_load(pod) >= (max > 0 and max or 1) then
    return 'c'
  end
  if max > 0 then
    pod_share(pod)
  end
  call_new(call_sid, pod, pool_label(info.tier), max, lease_ms, record_ms)
  rc('HSET', P .. 'call:' .. call_sid, 'attempts', '', 'renewed', '1', 'provider', provider)
  return 'a'
end
