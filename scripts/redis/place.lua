-- Puts pods into their right places, a bounded number at a time, so that lost data and edits by
-- hand are corrected. Answers {number of pods that are in doubt, and must be looked at again
-- soon}: see lib/mend.lua.
--
-- @arg fence: see lib/fence.lua
-- @arg how: PLACE_ONLY: rebalancing moves the pods; PLACE_AND_MEND
-- @each pod: a name
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include pods
-- include calls
-- include mend
local is_sync = ARG.how == CONST.PLACE_AND_MEND
if not is_sync and other_leads() then
  return {0} -- that program places its pods itself
end

for i = EACH.FIRST, #ARGV do
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
local answer = {waiting}
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
