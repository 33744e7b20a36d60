-- Drains the pods that autoscaling does not want, and ends such drains. Which pods: see
-- src/core/autoscale_sets.c. Answers 1 or 0 for each: a pod that another drain holds, or that is
-- not drained as surplus any more, stays as it is.
--
-- @arg fence: see lib/fence.lua
-- @each pod: its name
-- @each action: SCALE_DRAIN or SCALE_UNDRAIN
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include pods
local answer = {}
local is_ours = not other_leads()
for i = EACH.FIRST, #ARGV, EACH.SIZE do
  local pod, is_drain = ARGV[i], ARGV[i + 1] == CONST.SCALE_DRAIN
  local key = P .. 'pod:draining:' .. pod
  local info = is_ours and pod_record(pod)
  local flag = redis.pcall('GET', key)
  local done = 0
  if info and is_drain and not flag and not info.terminating then
    rc('SET', key, CONST.DRAINED_AS_SURPLUS)
    pod_place(pod, info)
    done = 1
  elseif info and not is_drain and ARGV[i + 1] == CONST.SCALE_UNDRAIN and
    flag == CONST.DRAINED_AS_SURPLUS then
    rc('DEL', key)
    pod_settle(pod, info)
    done = 1
  end
  answer[#answer + 1] = done
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
