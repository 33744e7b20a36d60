-- include base
-- include pods
-- include calls
-- The lease of this call was lost: deleted by hand, or by a late command of the first
-- implementation. If no other call has taken the pod since, or the pod has room, the call gets it
-- back. Returns whether it has.
local function call_restore(call_sid, pod, info, lease_ms)
  local max = info and tier_max(info.tier) or 0
  if not info or pod_load(pod) >= (max > 0 and max or 1) then
    return false
  end
  rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', lease_ms + CONST.GRACE_MS)
  rc('HSET', P .. 'pod:' .. pod, 'status', 'allocated', 'allocated_call_sid', call_sid)
  if max > 0 then
    call_share(call_sid, pod, info.tier, now + lease_ms)
  end
  pod_place(pod, info)
  return true
end
