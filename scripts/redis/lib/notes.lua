-- include base
-- @leaves NOTES_KEY_MS
local NOTES_KEY_MS = '600000'

-- Something has happened to a call. `carriers` is this field of its record. Each router that
-- carries the call gets a note, and then looks at the call.
local function carriers_notify(call_sid, carriers)
  for carrier in string.gmatch(carriers or '', '[^,]+') do
    if rc('EXISTS', P .. 'carrier:' .. carrier) == 1 then
      rc('RPUSH', P .. 'mail:' .. carrier, call_sid)
      rc('PEXPIRE', P .. 'mail:' .. carrier, NOTES_KEY_MS)
    end
  end
end
