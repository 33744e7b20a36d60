-- include base
-- The key of a lease lives a little longer than the lease (GRACE_MS), so that the script that ends
-- the call can still read it. The record of a call lives a day longer (RECORD_GRACE_MS): only a
-- sweep ends a call, and after an outage the sweep may be late.

-- The newest call of the pod, false if it has none. An expired lease ends nothing by itself. If the
-- key has expired as well, and nobody has ended the call, the call still has the pod. This happens
-- after an outage that was longer than both. If the key is gone before its time, somebody has
-- deleted it by hand to free the pod.
local function pod_lease(pod)
  local call_sid = rc('GET', P .. 'lease:' .. pod)
  if call_sid then
    return call_sid
  end
  call_sid = rc('HGET', P .. 'pod:' .. pod, 'allocated_call_sid')
  local expiry = call_sid and rc('ZSCORE', KEY.CALLS_ACTIVE, call_sid)
  if expiry and tonumber(expiry) + CONST.GRACE_MS <= now and
    rc('HGET', P .. 'call:' .. call_sid, 'pod_name') == pod then
    rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', CONST.GRACE_MS)
    return call_sid
  end
  return false
end
