-- The key of a lease lives a little longer than the lease, so that whoever ends the call can still read it; the record of a
-- call a day longer, because only a sweep ends a call, and after an outage that may be late. Both as in
-- src/store/redis/redis_internal.h.
local GRACE = 60000
local RECORD_GRACE = 86400000

-- The newest call of the pod, false if it has none. A lease that ran out ends nothing by itself: if its key has run out,
-- too, but nobody has ended the call, as after an outage that was longer than both, the call still has the pod. A key that
-- is gone before its time was deleted by hand, to free the pod.
local function pod_lease(pod)
  local call_sid = rc('GET', P .. 'lease:' .. pod)
  if call_sid then
    return call_sid
  end
  call_sid = rc('HGET', P .. 'pod:' .. pod, 'allocated_call_sid')
  local expiry = call_sid and rc('ZSCORE', P .. 'calls:active', call_sid)
  if expiry and tonumber(expiry) + GRACE <= now and rc('HGET', P .. 'call:' .. call_sid, 'pod_name') == pod then
    rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', GRACE)
    return call_sid
  end
  return false
end
