-- include base
-- @leaves IS_AFTER_OUTAGE
-- Every step of a sweep has the argument `asked_at`: the time in the last
-- answer that the router got before it asked. While Redis is stopped, a step can wait in a buffer,
-- and so can the heartbeats that contradict it. The router has given up such a step.
if now - tonumber(ARG.asked_at) > CONST.OUTAGE_MS then
  return redis.error_reply(CONST.LATE_STEP_REPLY)
end
-- Heartbeats and renewals could not arrive until a moment ago: see begin_sweep.lua.
local IS_AFTER_OUTAGE = rc('EXISTS', P .. 'forgiving') == 1
