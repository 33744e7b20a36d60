-- Looks at pods that are silent, and at pods that are held out of their pools.
--
-- @arg fence: see lib/fence.lua
-- @arg asked_at: see lib/sweep_step.lua
-- @arg silent_ms: a pod without a heartbeat for this long is silent
-- @arg limit: the largest number of pods of each kind
-- @arg cursor: of SSCAN, through the pods that are held out; '': not these
--
-- Answers {next cursor, 1 if there are more silent pods, pods brought back, the time, number of
-- pods that are gone, their names…, the ENDED_TEXTS of ended calls}.
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include sweep_step
-- include pods
-- include remove_pod
local CALLS_MAX = 50 -- that one script may end
local recovered, gone, ended, more, looked = 0, {}, {}, 0, 0
local silent = IS_AFTER_OUTAGE and {} or
  rc('ZRANGEBYSCORE', KEY.HEARTBEATS, '-inf', now - tonumber(ARG.silent_ms), 'LIMIT', 0, ARG.limit)
for _, pod in ipairs(silent) do
  if #ended >= CALLS_MAX * CONST.ENDED_TEXTS then
    more = 1
    break
  end
  local info = pod_record(pod)
  rc('ZREM', KEY.HEARTBEATS, pod)
  looked = looked + 1
  if info and info.source == CONST.SOURCE_API then
    pod_remove(pod, info, ended)
    gone[#gone + 1] = pod
  elseif not info then
    rc('HDEL', P .. 'pods:heard', pod) -- another program has removed it
  end
end
if looked == tonumber(ARG.limit) then
  more = 1
end
local page = ARG.cursor == '' and {'', {}} or
  rc('SSCAN', P .. 'pods:out', ARG.cursor, 'COUNT', ARG.limit)
for _, pod in ipairs(page[2]) do
  local info = pod_record(pod)
  if not info then
    rc('SREM', P .. 'pods:out', pod)
  else
    if info.held_until ~= 0 and info.held_until <= now then
      info.held_until = 0
      pod_put(pod, info)
    end
    if pod_settle(pod, info) then
      gone[#gone + 1] = pod
    elseif rc('SISMEMBER', P .. 'pods:out', pod) == 0 then
      recovered = recovered + 1
    end
  end
end
local answer = {page[1], more, recovered, string.format('%.0f', now), #gone}
for _, pod in ipairs(gone) do
  answer[#answer + 1] = pod
end
for _, text in ipairs(ended) do
  answer[#answer + 1] = text
end
return answer
