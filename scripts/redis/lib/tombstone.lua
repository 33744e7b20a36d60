-- include base
-- include notes
-- A tombstone records that a call was ended on purpose, if somebody had ever renewed the call. With
-- a tombstone no heartbeat and no renewal brings the call back.

local function tombstone_exists(call_sid)
  return rc('EXISTS', P .. 'ended:' .. call_sid) == 1
end

-- A renewed call ends. `carriers` is this field of its record: the routers that carry the call get
-- a note, so that its connections end as well.
local function tombstone_add(call_sid, why, carriers)
  rc('SET', P .. 'ended:' .. call_sid, why, 'PX', TEXT.TOMBSTONE_KEY_MS)
  carriers_end(call_sid, carriers)
end
