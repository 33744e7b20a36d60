-- Ends a drain. Answers {POD_UNKNOWN} or {POD_KNOWN}.
--
-- @arg pod: its name
-- include base
-- include deadline
-- include current_tiers
-- include pods
local pod = ARG.pod
local info = pod_get(pod)
if not info then
  return {CONST.POD_UNKNOWN}
end
rc('DEL', P .. 'pod:draining:' .. pod)
pod_settle(pod, info)
return {CONST.POD_KNOWN}
