-- Pods that do not exist any more, or that their source does not show any more.
--
-- @arg fence: see lib/fence.lua
-- @arg source: their source
-- @arg how: GONE_IS_GONE; or GONE_IS_ABSENT: pods with calls drain, and keep the calls
-- @each pod: a name
--
-- Answers, for each pod: GONE_UNKNOWN, GONE_REMOVED, GONE_CONFLICT or GONE_STAYS; the number of
-- calls that ended, and their ENDED_TEXTS. Stops after some dozen calls. The pods that the answer
-- leaves out must be named again.
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include pods
-- include remove_pod
local CALLS_MAX = 50
local answer = {}
local is_absent = ARG.how == CONST.GONE_IS_ABSENT
for i = EACH.FIRST, #ARGV do
  local pod = ARGV[i]
  local info = pod_record(pod)
  local ended = {}
  local what = not info and CONST.GONE_UNKNOWN or
    info.source == ARG.source and CONST.GONE_REMOVED or CONST.GONE_CONFLICT
  if what == CONST.GONE_REMOVED and is_absent and pod_load(pod) > 0 then
    what = CONST.GONE_STAYS
    if not info.terminating then
      info.terminating = true
      pod_put(pod, info)
      pod_place(pod, info)
    end
  elseif what == CONST.GONE_REMOVED then
    pod_remove(pod, info, ended)
  end
  local n = #answer
  answer[n + 1] = what
  answer[n + 2] = #ended / CONST.ENDED_TEXTS
  for k = 1, #ended do
    answer[n + 2 + k] = ended[k]
  end
  if #answer > CALLS_MAX * CONST.ENDED_TEXTS then
    break
  end
end
return answer
