-- The first step of every sweep. Answers the time, for lib/sweep_step.lua.
--
-- @arg fence: see lib/fence.lua
-- @arg forgive_ms: after an outage, for how long no pod counts as silent and no lease as expired;
--   '': there was no outage
-- include base
-- include deadline
-- include fence
if ARG.fence == '' then
  rc('SET', P .. 'leader:ours', 'without election', 'PX', '600000') -- see leader.lua
end
if ARG.forgive_ms ~= '' then
  rc('SET', P .. 'forgiving', '1', 'PX', ARG.forgive_ms)
end
return string.format('%.0f', now)
