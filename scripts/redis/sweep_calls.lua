-- Ends calls whose lease has expired. Granted calls that nobody has taken are left to serve.lua,
-- which says that their waits were abandoned. Answers {how many are left, the time, the ENDED_TEXTS
-- of ended calls}.
--
-- @arg fence: see lib/fence.lua
-- @arg asked_at: see lib/sweep_step.lua
-- @arg limit: the largest number of calls
-- @arg silent_ms: as for sweep_pods
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include sweep_step
-- include pods
-- include calls
local answer, untaken = {0, string.format('%.0f', now)}, 0
if IS_AFTER_OUTAGE then
  return answer
end
local silent = {}
for _, call_sid in
  ipairs(rc('ZRANGEBYSCORE', KEY.CALLS_ACTIVE, '-inf', now, 'LIMIT', 0, ARG.limit)) do
  local record = call_record(call_sid)
  local pod = record[1]
  if pod and record[7] then
    untaken = untaken + 1
  elseif pod then
    local info = pod_get(pod)
    call_end(answer, call_sid, record, pod, info and info.tier or nil, CONST.END_EXPIRED)
    if info then
      if not pod_settle(pod, info) and HAS_LINE and info.source == CONST.SOURCE_API and
        tonumber(rc('ZSCORE', KEY.HEARTBEATS, pod) or now) <= now - ARG.silent_ms then
        silent[#silent + 1] = pod -- sweep_pods is about to remove it: nobody gets its room
      end
    end
  else
    rc('ZREM', KEY.CALLS_ACTIVE, call_sid) -- its record was deleted by hand
  end
end
-- Nothing but untaken ones: serve.lua ends them first, and the next sweep goes on.
answer[1] = untaken < tonumber(ARG.limit) and
  math.max(0, rc('ZCOUNT', KEY.CALLS_ACTIVE, '-inf', now) - untaken) or 0
for _, pod in ipairs(silent) do
  local info = pod_record(pod)
  if info then
    pod_close(pod, info)
    rc('SADD', P .. 'pods:out', pod)
  end
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
