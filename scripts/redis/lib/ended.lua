-- include tell
-- Ends that were intended are recorded, if the call was ever renewed: no heartbeat and no renewal brings such a call back.
-- A key lives until its time has passed, a millisecond longer than the end is known.
local ENDED_KEEP = '599999' -- ENDED_KEEP_MS in src/core/command.h, less one

local function call_is_over(call_sid)
  return rc('EXISTS', P .. 'ended:' .. call_sid) == 1
end

-- The end of a call that was renewed, with this field `carriers` in its record. Whoever carries the call is told, so that
-- its connections end with it.
local function call_over(call_sid, why, carriers)
  rc('SET', P .. 'ended:' .. call_sid, why, 'PX', ENDED_KEEP)
  carriers_tell(call_sid, carriers)
end
