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
local answer = {CONST.POD_KNOWN}
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
