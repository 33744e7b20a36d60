-- Ends calls whose lease has expired. Answers {how many are left, the time, the ENDED_TEXTS of
-- ended calls}.
--
-- @arg fence: see lib/fence.lua
-- @arg asked_at: see lib/sweep_step.lua
-- @arg limit: the largest number of calls
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include sweep_step
-- include pods
-- include calls
local answer = {0, string.format('%.0f', now)}
if IS_AFTER_OUTAGE then
  return answer
end
for _, call_sid in
  ipairs(rc('ZRANGEBYSCORE', KEY.CALLS_ACTIVE, '-inf', now, 'LIMIT', 0, ARG.limit)) do
  local record = call_record(call_sid)
  local pod = record[1]
  if pod then
    local info = pod_get(pod)
    call_end(answer, call_sid, record, pod, info and info.tier or nil, CONST.END_EXPIRED)
    if info then
      pod_settle(pod, info)
    end
  else
    rc('ZREM', KEY.CALLS_ACTIVE, call_sid) -- its record was deleted by hand
  end
end
answer[1] = rc('ZCOUNT', KEY.CALLS_ACTIVE, '-inf', now)
return answer
