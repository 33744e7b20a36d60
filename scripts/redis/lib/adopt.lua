-- include base
-- include pods
-- include calls
-- include tombstone
-- include line_marks
-- The store has lost this call, or never had it. The pod, or the router that carries the call, says
-- that it exists, and this counts if the pod has room for it. Returns CALL_ADOPTED, CALL_CONFLICT
-- or CALL_ENDED. `who`: RENEWED_BY_… The pod is not settled. A call that waits leaves the line.
local function call_adopt(call_sid, provider, pod, info, who, lease_ms, record_ms)
  if tombstone_exists(call_sid) then
    return CONST.CALL_ENDED
  end
  local max = tier_max(info.tier) or 0
  local has_slot = rc('GET', P .. 'lease:' .. pod) == call_sid or
    rc('ZSCORE', P .. 'pod:calls:' .. pod, call_sid)
  if not has_slot and pod_load(pod) >= (max > 0 and max or 1) then
    return CONST.CALL_CONFLICT
  end
  if HAS_LINE then
    -- include line
    local w = waiting_get(call_sid)
    if w then
      line_leave(call_sid, w)
      holder_notify(call_sid, w.holder)
    end
  end
  if max > 0 then
    pod_share(pod)
  end
  call_new(call_sid, pod, pool_label(info.tier), max, lease_ms, record_ms)
  rc('HSET', P .. 'call:' .. call_sid, 'attempts', '', 'renewed', renewed_by(who),
    'provider', provider)
  return CONST.CALL_ADOPTED
end
