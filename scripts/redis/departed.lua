-- Part of every sweep: the calls of routers that have died. A router that carries calls renews its
-- key; when that has run out, the calls that only it carried have a while to come back through
-- another one.
--
-- @arg fence: see lib/fence.lua
-- @arg asked_at: see lib/sweep_step.lua
-- @arg limit: the largest number of calls
-- @arg rescues: YES; else no call comes back, and all leases stay as they are
--
-- Answers {1 if there are more else 0, the time, number of calls that may come back}.
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include sweep_step
-- include depart
local answer, left = {0, string.format('%.0f', now), 0}, tonumber(ARG.limit)
for _, router in ipairs(IS_AFTER_OUTAGE and {} or rc('SRANDMEMBER', P .. 'carried', 256)) do
  if rc('EXISTS', P .. 'carrier:' .. router) == 0 then
    local key = P .. 'carried:' .. router
    local calls = left > 0 and rc('SRANDMEMBER', key, left) or {}
    for _, call_sid in ipairs(calls) do
      local known = rc('HMGET', P .. 'call:' .. call_sid, 'pod_name', 'renewed')
      if known[1] and string.find(known[2] or '', '^' .. CONST.RENEWED_BY_GATEWAY) then
        local expiry = call_expiry(call_sid, known[1])
        local is_long = expiry > now + CONST.RESUME_MS
        if not is_long or ARG.rescues ~= CONST.YES then
          call_left(call_sid, router, false) -- its lease ends it
        elseif call_depart(call_sid, router, false) == 1 then
          -- See leave.lua: another router may be about to release the call.
          rc('HSET', P .. 'call:' .. call_sid, 'cut_short', string.format('%.0f', expiry))
          answer[3] = answer[3] + 1
        end
      elseif known[1] then
        call_left(call_sid, router, false) -- its pod, or a client, keeps it alive
      end
      rc('SREM', key, call_sid)
    end
    left = left - #calls
    if rc('EXISTS', key) == 0 then
      rc('SREM', P .. 'carried', router)
    else
      answer[1] = 1
    end
  end
end
return answer
