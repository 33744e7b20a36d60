-- include base
-- include calls
-- A release that names no pod says nothing about a call that was moved, cut or resumed a moment
-- ago: the end of its stream decides. Between two streams nobody carries the call. Returns the
-- answer of release_call.lua then; else nil, and the call ends.
local function call_kept(call_sid, record, unsettled)
  if now - (tonumber(unsettled) or 0) >= CONST.UNSETTLED_MS then
    return nil
  end
  return {CONST.RELEASE_KEPT, record[1], record[2] or '', record[3] or record[7] or '',
    record[4] or '', record[5] or '0', string.format('%.0f', call_expiry(call_sid, record[1])),
    rc('HGET', KEY.PODS, record[1]) or ''}
end
