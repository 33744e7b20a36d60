-- A call's record and its lease live a little longer than the lease itself, so that whoever ends the call can still read it.
local GRACE = 60000

-- The newest call of the pod, false if it has none. A lease that ran out ends nothing by itself: if its key is gone but
-- nobody has ended the call, as after an outage that was longer than both, the call still has the pod.
local function pod_lease(pod)
  local call_sid = rc('GET', P .. 'lease:' .. pod)
  if call_sid then
    return call_sid
  end
  call_sid = rc('HGET', P .. 'pod:' .. pod, 'allocated_call_sid')
  if call_sid and rc('ZSCORE', P .. 'calls:active', call_sid) and
    rc('HGET', P .. 'call:' .. call_sid, 'pod_name') == pod then
    rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', GRACE)
    return call_sid
  end
  return false
end
