-- include pods
-- Calls each(tier, state, load) for at most `limit` pods that the counts of a tier do not explain: d draining, s
-- suspended, b busy with more calls than the tier allows. A pod whose drain or hold is over stays out until somebody
-- looks, and counts as suspended meanwhile.
local function out_pods(limit, each)
  for _, pod in ipairs(rc('SRANDMEMBER', P .. 'pods:out', limit)) do
    local info = pod_record(pod)
    if info then
      each(info.tier, pod_is_draining(pod, info) and 'd' or 's', pod_load(pod))
    end
  end
  for _, pod in ipairs(rc('SRANDMEMBER', P .. 'pods:over', limit)) do
    local info = rc('SISMEMBER', P .. 'pods:out', pod) == 0 and pod_record(pod)
    if info then
      each(info.tier, 'b', pod_load(pod))
    end
  end
end
