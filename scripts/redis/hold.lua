-- A connection of a call is about to be opened: finds the call's pod, renews the call, and makes
-- the router its carrier.
--
-- @arg lease_ms: the lease
-- @arg record_ms: the least life of a record
-- @arg carrier: the router, or ''
-- @arg call_sid: the call
-- @arg claim: of a stream that is held; HOLD_IS_NEW for one that begins now; or ''
--
-- Answers {HOLD_ELSEWHERE} if a newer stream than the one with this claim has the call,
-- {HOLD_NOT_FOUND, 1 if it has a tombstone else 0; ENDED_TEXTS if another call has its
-- slot}, {HOLD_WAITING, WAITING_TEXTS} if it has no pod yet, or {HOLD_DONE, pod, pool, merchant,
-- provider, allocated_at, expiry, pod's record, 1 if it had a connection before else 0; the ms of
-- waiting if this took a granted call, else ''}.
-- include base
-- include deadline
-- include current_tiers
-- include renew
-- include tombstone
-- include claims
local carrier, call_sid = ARG.carrier, ARG.call_sid
local lease_ms = tonumber(ARG.lease_ms)
local record = call_record(call_sid)
local pod = record[1]
local claim = tonumber(ARG.claim)
if not pod and HAS_LINE then
  -- include waiting_texts
  local w = waiting_get(call_sid)
  if w and claim and waiting_is_elsewhere(w, claim) then
    return {CONST.HOLD_ELSEWHERE}
  elseif w then
    local answer = {CONST.HOLD_WAITING}
    waiting_texts(answer, call_sid, w)
    return answer
  end
end
if not pod then
  return {CONST.HOLD_NOT_FOUND, tombstone_exists(call_sid) and 1 or 0}
end
local answer = {CONST.HOLD_NOT_FOUND, 0}
local known = rc('HMGET', P .. 'call:' .. call_sid, 'connected', 'claim')
local newest = claim_read(known[2])
if claim and newest > claim then
  return {CONST.HOLD_ELSEWHERE}
end
local granted = record[7]
if call_renew_checked(call_sid, pod, pod_get(pod), record, answer, CONST.RENEWED_BY_GATEWAY,
  lease_ms, tonumber(ARG.record_ms)) == CONST.CALL_CONFLICT then
  return answer
end
if ARG.claim == CONST.HOLD_IS_NEW and (newest > 0 or granted) then
  rc('HSET', P .. 'call:' .. call_sid, 'claim', string.format('%.0f', claim_next(newest)))
end
local holder = granted and string.match(granted, ' (%S+)$')
if holder and holder ~= carrier then
  carriers_notify(CONST.NOTE_CHANGED .. call_sid, holder) -- what it keeps for the call is outdated
end
if carrier ~= '' then
  carrier_is_here(carrier)
  call_carried(call_sid, carrier)
end
return {CONST.HOLD_DONE, pod, record[2] or '', record[3] or '', record[4] or '', record[5] or '0',
  string.format('%.0f', now + lease_ms), rc('HGET', KEY.PODS, pod) or '', known[1] and 1 or 0,
  granted and granted_wait(granted) or ''}
