-- include base
-- include calls
-- A router carries the call no more. If no other one does, the call has RESUME_MS to come back.
-- Returns 1 then, else 0.
local function call_depart(call_sid, carrier, is_unsettled)
  local key = P .. 'call:' .. call_sid
  local known = rc('HMGET', key, 'pod_name', 'carriers')
  if not known[1] or
    not string.find(',' .. (known[2] or '') .. ',', ',' .. carrier .. ',', 1, true) then
    rc('SREM', P .. 'carried:' .. carrier, call_sid)
    return 0
  end
  if call_left(call_sid, carrier, false) then
    return 0
  end
  call_extend(call_sid, known[1], CONST.RESUME_MS, 0)
  if is_unsettled then
    rc('HSET', key, 'unsettled', string.format('%.0f', now))
  end
  return 1
end
