-- A pod's own word on the calls it carries, in one part or in several.
--
-- ARGV: 4 pod, 5 lease in ms, 6 record's life in ms, 7 heartbeats that may leave a call out, '' if more parts follow,
-- 8 age in ms below which a call is not ended, 9 how many calls the parts before this one had, 10… call_sids: in the
-- last part all of them, in the others their own. Answers {0} if the pod is unknown, else
-- {1, r|a|c|o for each call of this part: renewed, adopted, conflict, over; then the ended calls, five texts each: those
-- whose slot another call has by now, and, in the last part, those that the pod no longer mentions}.
-- include base
-- include deadline
-- include fresh
-- include adopt
-- include keep
local pod, lease_ms, record_ms = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local info = pod_get(pod)
if not info then
  return {0}
end
rc('ZADD', P .. 'heartbeats', now, pod)

local answer, lost, listed, is_changed = {1}, {}, {}, false
local is_last = ARGV[7] ~= ''
local first = is_last and 10 + ARGV[9] or 10
for i = 10, first - 1 do
  listed[ARGV[i]] = true
end
for i = first, #ARGV do
  local call_sid = ARGV[i]
  local record = call_record(call_sid)
  local owner = record[1]
  local at = i - first + 2
  listed[call_sid] = true
  if owner and owner ~= pod then
    answer[at] = 'c'
  elseif owner then
    answer[at] = call_keep(call_sid, pod, info, record, lost, lease_ms, record_ms)
  else
    answer[at] = call_adopt(call_sid, '', pod, info, lease_ms, record_ms)
    is_changed = is_changed or answer[at] == 'a'
  end
end
if is_last and info.held_until > now then
  -- It has spoken: what it carries is known now, so it may get calls again. After that time a sweep sees to it.
  info.held_until = 0
  pod_put(pod, info)
  is_changed = true
end
if is_changed then
  pod_settle(pod, info)
end

-- Ends the calls that the pod no longer speaks of; young ones may simply not have reached it yet.
for _, call_sid in ipairs(is_last and pod_calls(pod) or {}) do
  if not listed[call_sid] then
    local record = call_record(call_sid)
    local misses = record[1] and rc('HINCRBY', P .. 'call:' .. call_sid, 'misses', 1)
    if not misses then
      call_drop(call_sid, pod, false) -- its record was deleted by hand, or by the first implementation
      if pod_settle(pod, info) then
        break
      end
    elseif misses >= tonumber(ARGV[7]) and now - (tonumber(record[5]) or 0) * 1000 > tonumber(ARGV[8]) then
      call_ended(lost, call_sid, record, 'unmentioned')
      call_drop(call_sid, pod, info.tier)
      if pod_settle(pod, info) then
        break
      end
    end
  end
end
for _, text in ipairs(lost) do
  answer[#answer + 1] = text
end
return answer
