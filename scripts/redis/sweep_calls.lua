-- Ends calls whose lease has run out, at most ARGV[5] of them. ARGV[4] is the fence.
-- Answers {how many are left, the ended calls, five texts each}.
-- include base
-- include fence
-- include pods
-- include calls
local answer = {0}
for _, call_sid in ipairs(rc('ZRANGEBYSCORE', P .. 'calls:active', '-inf', now, 'LIMIT', 0, ARGV[5])) do
  local record = call_record(call_sid)
  local pod = record[1]
  if pod then
    call_ended(answer, call_sid, record, 'expired')
    call_drop(call_sid, pod)
    local info = pod_get(pod)
    if info then
      pod_settle(pod, info)
    end
  else
    rc('ZREM', P .. 'calls:active', call_sid) -- its record was deleted by hand
  end
end
answer[1] = rc('ZCOUNT', P .. 'calls:active', '-inf', now)
return answer
