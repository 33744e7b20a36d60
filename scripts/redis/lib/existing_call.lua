-- include base
-- include pods
-- include calls
-- include restore
-- The answer for a call that has the record `known`. If the call has lost its slot, or its pod is
-- gone: nil, and the texts of the ended call.
local function call_existing(call_sid, known)
  local pod = known[1]
  local text = rc('HGET', KEY.PODS, pod)
  -- A pod that has a tier is about to be registered again: the hash of pods was lost, or never
  -- existed. Its call stays. While another program leads, that program decides which pods exist,
  -- and our hash may be outdated.
  local is_there = (text and not other_leads()) or rc('EXISTS', P .. 'pod:tier:' .. pod) == 1
  local has_slot = call_has_slot(call_sid, pod)
  local info = not (is_there and has_slot) and pod_get(pod)
  if is_there and
    (has_slot or (info and call_restore(call_sid, pod, info, tonumber(ARG.lease_ms)))) then
    return {CONST.CALL_EXISTING, pod, known[2] or '', known[3] or '', known[4] or '',
      known[5] or '0', string.format('%.0f', call_expiry(call_sid, pod)), text or '', 0}
  end
  local lost = {}
  call_end(lost, call_sid, known, pod, info and info.tier or nil,
    has_slot and CONST.END_POD_GONE or CONST.END_EXPIRED)
  if info then
    pod_settle(pod, info)
  end
  return nil, lost
end
