-- Ends calls whose lease has run out, at most ARGV[6] of them. ARGV[4] is the fence, ARGV[5] see lib/late.lua.
-- Answers {how many are left, the time, the ended calls, five texts each}.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include late
-- include pods
-- include calls
local answer = {0, string.format('%.0f', now)}
if IS_FORGIVING then
  return answer
end
for _, call_sid in ipairs(rc('ZRANGEBYSCORE', P .. 'calls:active', '-inf', now, 'LIMIT', 0, ARGV[6])) do
  local record = call_record(call_sid)
  local pod = record[1]
  if pod then
    call_ended(answer, call_sid, record, 'expired')
    local info = pod_get(pod)
    call_drop(call_sid, pod, info and info.tier or nil)
    if info then
      pod_settle(pod, info)
    end
  else
    rc('ZREM', P .. 'calls:active', call_sid) -- its record was deleted by hand
  end
end
answer[1] = rc('ZCOUNT', P .. 'calls:active', '-inf', now)
return answer
