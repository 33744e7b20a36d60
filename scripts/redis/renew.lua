-- Renews the leases of calls.
--
-- @arg lease_ms: the lease
-- @arg record_ms: the least life of a record
-- @arg carrier: the router that carries the calls, or ''
-- @each call_sid: the call
-- @each on_pod: the pod to which it is connected; or a pattern that its pod must match; or ''
-- @each provider: its provider, or '' if it is not known
-- @each can_move: YES: the call may be moved to another pod when its own breaks
--
-- Answers {expiry; for each call CALL_RENEWED, CALL_ADOPTED, CALL_UNKNOWN, CALL_ENDED or
-- CALL_CONFLICT; the ENDED_TEXTS of calls that were found to have ended}.
-- include base
-- include deadline
-- include current_tiers
-- include adopt
-- include renew
-- include pattern
local lease_ms, record_ms = tonumber(ARG.lease_ms), tonumber(ARG.record_ms)
local carrier = ARG.carrier
local who = carrier ~= '' and CONST.RENEWED_BY_GATEWAY or CONST.RENEWED_BY_CLIENT
local lost = {}
local answer = {string.format('%.0f', now + lease_ms)}

local function renew(call_sid, on_pod, provider)
  local record = call_record(call_sid)
  local pod = record[1]
  if pod then
    if on_pod ~= '' and not pattern_matches(on_pod, pod) then
      return CONST.CALL_CONFLICT
    end
    local what = call_renew_checked(call_sid, pod, pod_get(pod), record, lost, who, lease_ms,
      record_ms)
    if what == CONST.CALL_RENEWED and provider ~= '' and (record[4] or '') == '' then
      rc('HSET', P .. 'call:' .. call_sid, 'provider', provider) -- an adopted call has none
    end
    return what
  end
  local info = carrier ~= '' and on_pod ~= '' and pod_get(on_pod) -- nothing is adopted by a pattern
  if not info then
    return tombstone_exists(call_sid) and CONST.CALL_ENDED or CONST.CALL_UNKNOWN
  end
  local what = call_adopt(call_sid, provider, on_pod, info, who, lease_ms, record_ms)
  if what == CONST.CALL_ADOPTED then
    pod_settle(on_pod, info)
  end
  return what
end

if carrier ~= '' then
  carrier_is_here(carrier)
end
for i = EACH.FIRST, #ARGV, EACH.SIZE do
  local what = renew(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  if carrier ~= '' and (what == CONST.CALL_RENEWED or what == CONST.CALL_ADOPTED) then
    call_carried(ARGV[i], carrier)
    rc('HSET', P .. 'call:' .. ARGV[i], 'connected', '1', 'movable', ARGV[i + 3])
  end
  answer[#answer + 1] = what
end
for _, text in ipairs(lost) do
  answer[#answer + 1] = text
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
