-- Something has happened to a call with this field `carriers` in its record: each router that carries it gets a note, and looks
-- what became of the call.
local MAIL_KEEP = '600000'

local function carriers_tell(call_sid, carriers)
  for carrier in string.gmatch(carriers or '', '[^,]+') do
    if rc('EXISTS', P .. 'carrier:' .. carrier) == 1 then
      rc('RPUSH', P .. 'mail:' .. carrier, call_sid)
      rc('PEXPIRE', P .. 'mail:' .. carrier, MAIL_KEEP)
    end
  end
end
