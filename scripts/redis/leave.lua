-- A router does not carry a call any more: ends the call, unless another router carries it or
-- somebody has renewed it.
--
-- @arg call_sid: the call
-- @arg carrier: the router, or ''
-- @arg expiry: the end of the lease if nobody has renewed the call; '0': end nothing
-- @arg is_after_outage: YES if routers may have been unreachable until a moment ago: none counts as
--   dead
--
-- Answers {RELEASE_NOT_FOUND}, {LEAVE_RENEWED}, {LEAVE_CARRIED}, or as release_and_allocate.lua for
-- a release.
-- include base
-- include deadline
-- include current_tiers
-- include release
-- include tombstone
local call_sid, carrier = ARG.call_sid, ARG.carrier
local record = call_record(call_sid)
local pod = record[1]
if not pod then
  return {CONST.RELEASE_NOT_FOUND}
end
if carrier ~= '' and call_left(call_sid, carrier, ARG.is_after_outage == CONST.YES) then
  return {CONST.LEAVE_CARRIED}
end
local expiry = string.format('%.0f', call_expiry(call_sid, pod))
-- A lease that was only cut short, because another carrier has died, was not renewed.
if ARG.expiry == '0' or (expiry ~= ARG.expiry and not (tonumber(expiry) < tonumber(ARG.expiry) and
  rc('HGET', P .. 'call:' .. call_sid, 'cut_short') == ARG.expiry)) then
  return {CONST.LEAVE_RENEWED}
end
local renewed = rc('HGET', P .. 'call:' .. call_sid, 'renewed')
if renewed or record[7] then
  tombstone_add(call_sid, CONST.TOMBSTONE_CLOSED, '')
end
local answer = call_release(call_sid, record, renewed, time[1] .. '\n' .. time[2],
  record[7])
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
