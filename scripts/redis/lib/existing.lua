-- include pods
-- include calls
-- include owner
-- What to answer for a call that has a record. If it has lost its slot or its pod is gone: nil, and the call that has
-- ended, as five texts.
local function existing(known)
  local pod = known[1]
  local expiry = call_expiry(call_sid, pod)
  local info = rc('HGET', P .. 'pods', pod)
  -- A pod that has a tier is about to be registered again: the hash of pods was lost, or never was. Its call stays.
  -- While another program leads it says which pods there are, and our hash may be old.
  local has_slot = call_has_slot(call_sid, pod)
  if has_slot and ((info and not other_leads()) or rc('EXISTS', P .. 'pod:tier:' .. pod) == 1) then
    return {1, pod, known[2] or '', known[3] or '', known[4] or '', known[5] or '0', string.format('%.0f', expiry),
      info or '', 0}
  end
  local lost = {}
  call_ended(lost, call_sid, known, has_slot and 'gone' or 'expired')
  local known_pod = pod_get(pod)
  call_drop(call_sid, pod, known_pod and known_pod.tier or nil)
  if known_pod then
    pod_settle(pod, known_pod)
  end
  return nil, lost
end
