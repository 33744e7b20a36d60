-- Ends a drain. ARGV: 4 pod. Answers {0} if it is unknown, else {1}.
-- include base
-- include deadline
-- include fresh
-- include pods
local pod = ARGV[4]
local info = pod_get(pod)
if not info then
  return {0}
end
rc('DEL', P .. 'pod:draining:' .. pod)
pod_settle(pod, info)
return {1}
