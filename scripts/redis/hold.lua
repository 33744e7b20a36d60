-- A connection of a call is about to be opened: finds the call's pod, renews the call, and makes
-- the router its carrier.
--
-- @arg lease_ms: the lease
-- @arg record_ms: the least life of a record
-- @arg carrier: the router, or ''
-- @arg call_sid: the call
--
-- Answers {HOLD_NOT_FOUND, 1 if it has a tombstone else 0; ENDED_TEXTS if another call has its
-- slot}, or {HOLD_DONE, pod, pool, merchant, provider, allocated_at, expiry, pod's record, 1 if it
-- had a connection before else 0}.
-- include base
-- include deadline
-- include current_tiers
-- include renew
-- include tombstone
local carrier, call_sid = ARG.carrier, ARG.call_sid
local lease_ms = tonumber(ARG.lease_ms)
local record = call_record(call_sid)
local pod = record[1]
if not pod then
  return {CONST.HOLD_NOT_FOUND, tombstone_exists(call_sid) and 1 or 0}
end
local answer = {CONST.HOLD_NOT_FOUND, 0}
local was_connected = rc('HGET', P .. 'call:' .. call_sid, 'connected')
if call_renew_checked(call_sid, pod, pod_get(pod), record, answer, CONST.RENEWED_BY_GATEWAY,
  lease_ms, tonumber(ARG.record_ms)) == CONST.CALL_CONFLICT then
  return answer
end
if carrier ~= '' then
  carrier_is_here(carrier)
  call_carried(call_sid, carrier)
end
return {CONST.HOLD_DONE, pod, record[2] or '', record[3] or '', record[4] or '', record[5] or '0',
  string.format('%.0f', now + lease_ms), rc('HGET', KEY.PODS, pod) or '', was_connected and 1 or 0}
