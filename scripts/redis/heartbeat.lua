-- A pod names the calls that it carries, in one part or in several.
--
-- @arg pod: its name
-- @arg lease_ms: the lease
-- @arg record_ms: the least life of a record
-- @arg misses: the number of heartbeats in a row that may omit a call; '' if more parts follow
-- @arg young_ms: a younger call is not ended
-- @arg done: the number of calls in the parts before this one
-- @each call_sid: in the last part all calls, in the others only their own
--
-- Answers {POD_UNKNOWN} or {POD_KNOWN, CALL_RENEWED, CALL_ADOPTED, CALL_CONFLICT or CALL_ENDED for
-- each call of this part, then the ENDED_TEXTS of ended calls}. These are the calls whose slot
-- another call has by now, and, in the last part, the calls that the pod omits.
-- include base
-- include deadline
-- include current_tiers
-- include adopt
-- include renew
local pod, lease_ms, record_ms = ARG.pod, tonumber(ARG.lease_ms), tonumber(ARG.record_ms)
local info = pod_get(pod)
if not info then
  return {CONST.POD_UNKNOWN}
end
rc('ZADD', KEY.HEARTBEATS, now, pod)
rc('HSET', P .. 'pods:heard', pod, string.format('%.0f', now))

local answer, lost, listed, is_changed = {CONST.POD_KNOWN}, {}, {}, false
local is_last = ARG.misses ~= ''
local first = is_last and EACH.FIRST + ARG.done or EACH.FIRST
for i = EACH.FIRST, first - 1 do
  listed[ARGV[i]] = true
end
for i = first, #ARGV do
  local call_sid = ARGV[i]
  local record = call_record(call_sid)
  local owner = record[1]
  local at = i - first + 2
  listed[call_sid] = true
  if owner and owner ~= pod then
    answer[at] = CONST.CALL_CONFLICT
  elseif owner then
    answer[at] = call_renew_checked(call_sid, pod, info, record, lost,
      CONST.RENEWED_BY_POD, lease_ms, record_ms)
  else
    answer[at] = call_adopt(call_sid, '', pod, info, CONST.RENEWED_BY_POD, lease_ms, record_ms)
    is_changed = is_changed or answer[at] == CONST.CALL_ADOPTED
  end
end
if is_last and info.held_until > now then
  -- The calls of the pod are known now, so it may get calls again. A hold that has expired is ended
  -- by a sweep.
  info.held_until = 0
  pod_put(pod, info)
  is_changed = true
end
if is_changed then
  pod_settle(pod, info)
end

-- Ends the calls that the pod omits. A young call may not have reached the pod yet.
for _, call_sid in ipairs(is_last and pod_calls(pod) or {}) do
  if not listed[call_sid] then
    local record = call_record(call_sid)
    local misses = record[1] and rc('HINCRBY', P .. 'call:' .. call_sid, 'misses', 1)
    if not misses then
      -- Its record was deleted, by hand or by the first implementation.
      call_drop(call_sid, pod, false)
      if pod_settle(pod, info) then
        break
      end
    elseif misses >= tonumber(ARG.misses) and
      now - (tonumber(rc('HGET', P .. 'call:' .. call_sid, 'placed_at') or record[5]) or 0) * 1000 >
        tonumber(ARG.young_ms) then
      call_end(lost, call_sid, record, pod, info.tier, CONST.END_UNMENTIONED)
      if pod_settle(pod, info) then
        break
      end
    end
  end
end
for _, text in ipairs(lost) do
  answer[#answer + 1] = text
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
