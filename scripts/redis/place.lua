-- Puts pods back where they belong, a bounded number at a time, so that what was edited by hand or lost comes
-- right. ARGV: 4 the fence; 5 'place' after a change of the tiers, where moving pods is left to the rebalancing, or 'settle' at
-- a sync; 6… names. Answers how many were looked at.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include pods
-- include calls
local is_sync = ARGV[5] == 'settle'

-- A call that its pod has, but that is not in the list of all calls: its record was deleted by hand and it has ended,
-- or it is the list that was deleted.
local function mend_calls(pod)
  for _, call_sid in ipairs(pod_calls(pod)) do
    if not rc('ZSCORE', P .. 'calls:active', call_sid) then
      local owner = rc('HGET', P .. 'call:' .. call_sid, 'pod_name')
      if owner == pod then
        rc('ZADD', P .. 'calls:active', call_expiry(call_sid, pod), call_sid)
      elseif not owner then
        call_drop(call_sid, pod)
      end
    end
  end
end

for i = 6, #ARGV do
  local pod = ARGV[i]
  local info = pod_get(pod)
  if info then
    if is_sync then
      rc('ZADD', P .. 'pods:names', 0, pod)
      rc('SADD', assigned_key(info.tier), pod)
      rc('SADD', P .. 'tiers:used', info.tier)
      rc('SET', P .. 'pod:tier:' .. pod, info.tier, 'NX')
      rc('HSETNX', P .. 'pod:metadata', pod, pod_metadata(pod, info.tier))
      mend_calls(pod)
      pod_settle(pod, info)
    else
      pod_place(pod, info)
    end
  end
end
return #ARGV - 5
