-- include base
-- include pods
-- Calls each(tier, state, load, is_leaving) for at most `limit` pods that the counts of a tier do
-- not explain: POD_IS_DRAINING, POD_IS_SUSPENDED, or POD_IS_BUSY with more calls than the tier
-- allows. A pod whose drain or hold has ended stays out until a sweep looks at it, and counts as
-- suspended meanwhile. `is_leaving`: it is terminating or surplus; autoscaling does not count it.
local function held_out_pods(limit, each)
  for _, pod in ipairs(rc('SRANDMEMBER', P .. 'pods:out', limit)) do
    local info = pod_record(pod)
    if info then
      local flag = redis.pcall('GET', P .. 'pod:draining:' .. pod)
      local is_draining = info.terminating or flag
      each(info.tier, is_draining and CONST.POD_IS_DRAINING or CONST.POD_IS_SUSPENDED,
        pod_load(pod), info.terminating or flag == CONST.DRAINED_AS_SURPLUS)
    end
  end
  for _, pod in ipairs(rc('SRANDMEMBER', P .. 'pods:over', limit)) do
    local info = rc('SISMEMBER', P .. 'pods:out', pod) == 0 and pod_record(pod)
    if info then
      each(info.tier, CONST.POD_IS_BUSY, pod_load(pod), false)
    end
  end
end
