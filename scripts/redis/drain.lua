-- Gives a pod no new call for a while. ARGV: 4 pod, 5 how long in ms.
-- Answers {0} if it is unknown, else {1, calls it carries, until when}.
-- include base
-- include deadline
-- include fresh
-- include pods
local pod, ttl = ARGV[4], tonumber(ARGV[5])
local info = pod_get(pod)
if not info then
  return {0}
end
-- Redis keeps a key until its time has passed, a millisecond longer than the drain lasts.
rc('SET', P .. 'pod:draining:' .. pod, 'true', 'PX', math.max(1, ttl - 1))
return {1, (pod_place(pod, info)), string.format('%.0f', now + ttl)}
