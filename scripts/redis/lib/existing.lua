-- include pods
-- include calls
-- include owner
-- include restore
-- What to answer for a call that has a record. If it has lost its slot or its pod is gone: nil, and the call that has
-- ended, as five texts.
local function existing(known)
  local pod = known[1]
  local text = rc('HGET', P .. 'pods', pod)
  -- A pod that has a tier is about to be registered again: the hash of pods was lost, or never was. Its call stays. While
  -- another program leads it says which pods there are, and our hash may be old.
  local is_there = (text and not other_leads()) or rc('EXISTS', P .. 'pod:tier:' .. pod) == 1
  local has_slot = call_has_slot(call_sid, pod)
  local info = not (is_there and has_slot) and pod_get(pod)
  if is_there and (has_slot or (info and call_restore(call_sid, pod, info, tonumber(ARGV[4])))) then
    return {1, pod, known[2] or '', known[3] or '', known[4] or '', known[5] or '0',
      string.format('%.0f', call_expiry(call_sid, pod)), text or '', 0}
  end
  local lost = {}
  call_ended(lost, call_sid, known, has_slot and 'gone' or 'expired')
  call_drop(call_sid, pod, info and info.tier or nil)
  if info then
    pod_settle(pod, info)
  end
  return nil, lost
end
