-- include pods
-- include calls
-- Renews a call that has a record, whether its lease has run out or not, as long as its slot is its own or free: gives r.
-- If another call has the slot by now it gives c, and what is left of this one goes, as five texts in `lost`.
local function call_keep(call_sid, pod, info, record, lost, lease_ms, record_ms)
  if not call_has_slot(call_sid, pod) then
    local max = info and tier_max(info.tier) or 0
    if pod_load(pod) >= (max > 0 and max or 1) then
      call_ended(lost, call_sid, record, 'expired')
      call_drop(call_sid, pod, info and info.tier or nil)
      return 'c'
    end
    -- Its lease was lost, and nobody has taken the pod since.
    rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', lease_ms + GRACE)
    rc('HSET', P .. 'pod:' .. pod, 'status', 'allocated', 'allocated_call_sid', call_sid)
    if max > 0 then
      call_share(call_sid, pod, info.tier, now + lease_ms)
    end
    if info then
      pod_place(pod, info)
    end
  end
  call_renew(call_sid, pod, lease_ms, record_ms)
  return 'r'
end
