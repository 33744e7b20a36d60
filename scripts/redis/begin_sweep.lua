-- The first step of every sweep. Answers the time, for lib/sweep_step.lua.
--
-- @arg fence: see lib/fence.lua
-- @arg forgive_ms: after an outage, for how long no pod counts as silent and no lease as expired;
--   '': there was no outage
-- include base
-- include deadline
-- include fence
-- include past_cut
if ARG.fence == '' then
  rc('SET', P .. 'leader:ours', 'without election', 'PX', '600000') -- see leader.lua
end
if ARG.forgive_ms ~= '' then
  -- The time is for lib/line_forgiving.lua.
  rc('SET', P .. 'forgiving', string.format('%.0f', now), 'PX', ARG.forgive_ms)
end
-- Forgets calls that have ended too long ago: see lib/past.lua, whose second line has the seconds.
-- In an hour there are PAST_CALLS_MAX of them at most, so one sweep need not forget all.
local ended = redis.pcall('LRANGE', KEY.CALLS_ENDED, '0', CONST.PAST_SWEPT * 2 - 1)
local old = 0
while type(ended[old * 2 + 2]) == 'string' and
  (tonumber(string.match(ended[old * 2 + 2], '\n(%d+)\n')) or 0) * 1000 <=
  now - CONST.PAST_KEEP_MS do
  old = old + 1
end
if old > 0 then
  past_cut(old * 2)
end
local length = redis.pcall('LLEN', KEY.CALLS_ENDED)
if type(length) == 'number' and length > (CONST.PAST_CALLS_MAX + CONST.PAST_SLACK) * 2 then
  past_cut(-2 * CONST.PAST_CALLS_MAX)
end
-- If nobody sweeps any more, nothing is left of it a day later.
redis.pcall('PEXPIRE', KEY.CALLS_ENDED, TEXT.RECORD_GRACE_MS)
return string.format('%.0f', now)
