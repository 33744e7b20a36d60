-- Puts pods back where they belong, a bounded number at a time, so that what was edited by hand or lost comes
-- right. ARGV: 4 the fence; 5 'place' after a change of the tiers, where moving pods is left to the rebalancing, or 'settle' at
-- a sync; 6… names. Answers how many pods are in doubt, and to be looked at again soon (lib/mend.lua).
-- include base
-- include deadline
-- include fence
-- include fresh
-- include pods
-- include calls
-- include mend
local is_sync = ARGV[5] == 'settle'
if not is_sync and other_leads() then
  return 0 -- that program places its pods itself
end

for i = 6, #ARGV do
  local pod = ARGV[i]
  local info = pod_record(pod)
  if info then
    if is_sync then
      rc('ZADD', P .. 'pods:names', 0, pod)
      rc('SADD', assigned_key(info.tier), pod)
      rc('SADD', P .. 'tiers:used', info.tier)
      rc('HSETNX', P .. 'pod:metadata', pod, pod_metadata(pod, info.tier))
      pod_mend(pod, info, 0)
    else
      pod_place(pod, info)
    end
  end
end
return waiting
