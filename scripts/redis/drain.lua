-- Gives a pod no new call for a while, or until it is undrained.
--
-- @arg pod: its name
-- @arg ttl_ms: for how long; '': until it is undrained
--
-- Answers {POD_UNKNOWN} or {POD_KNOWN, number of its calls, the end of the drain or
-- DRAIN_HAS_NO_END}.
-- include base
-- include deadline
-- include current_tiers
-- include pods
local pod, ttl = ARG.pod, tonumber(ARG.ttl_ms)
local info = pod_get(pod)
if not info then
  return {CONST.POD_UNKNOWN}
end
if ttl then
  -- Redis keeps a key until its expiry has passed: a millisecond longer than the drain lasts.
  rc('SET', P .. 'pod:draining:' .. pod, CONST.DRAINED, 'PX', math.max(1, ttl - 1))
else
  rc('SET', P .. 'pod:draining:' .. pod, CONST.DRAINED)
end
return {CONST.POD_KNOWN, (pod_place(pod, info)),
  ttl and string.format('%.0f', now + ttl) or CONST.DRAIN_HAS_NO_END}
