-- include base
-- include line_call
-- @leaves NOTES_KEY_MS
local NOTES_KEY_MS = '600000'

-- Something has happened to a call. `carriers` is this field of its record, or its holder. Each of
-- these routers gets a note, the name of the call, and is woken up to read it. NOTE_CHANGED stands
-- before the name unless a carried call has ended. A router that cannot be woken up reads its
-- notes a little later.
local function carriers_notify(note, carriers)
  for carrier in string.gmatch(carriers or '', '[^,]+') do
    if rc('EXISTS', P .. 'carrier:' .. carrier) == 1 then
      line_call('RPUSH', P .. 'mail:' .. carrier, note)
      rc('PEXPIRE', P .. 'mail:' .. carrier, NOTES_KEY_MS)
      redis.pcall('PUBLISH', KEY.WAKE .. carrier, '')
    end
  end
end

-- The call has ended: its routers are told, and carry it no more.
local function carriers_end(call_sid, carriers)
  carriers_notify(call_sid, carriers)
  for carrier in string.gmatch(carriers or '', '[^,]+') do
    redis.pcall('SREM', P .. 'carried:' .. carrier, call_sid)
  end
end
