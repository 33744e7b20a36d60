-- Looks at pods that are silent, and at pods that are held out of their pools.
--
-- @arg fence: see lib/fence.lua
-- @arg asked_at: see lib/sweep_step.lua
-- @arg silent_ms: a pod without a heartbeat for this long is silent
-- @arg limit: the largest number of pods of each kind
-- @arg cursor: of SSCAN, through the pods that are held out; '': not these
-- @arg rescues: YES: calls that can go on elsewhere do; else what follows is empty
-- @arg lease_ms: the lease of a call that moves
-- @arg record_ms: the least life of a record
-- @arg max_wait_ms: HOLD_MAX_WAIT
-- @arg ageing_ms: HOLD_AGEING
-- @arg merchants: as for allocate
-- @arg chain_count: as for allocate
-- @list chain: as for allocate
--
-- Answers {next cursor, 1 if there are more silent pods, pods brought back, the time, number of
-- pods that are gone, their names…, the ENDED_TEXTS of ended calls}.
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include sweep_step
local CHAIN_END = ARG_AT.chain_count + ARG.chain_count
-- include pods
-- include remove_pod
local recovered, gone, ended, more, looked = 0, {}, {}, 0, 0
local silent = IS_AFTER_OUTAGE and {} or
  rc('ZRANGEBYSCORE', KEY.HEARTBEATS, '-inf', now - tonumber(ARG.silent_ms), 'LIMIT', 0, ARG.limit)
-- All of them leave their lists first: no call that one of them loses may go to another of them.
for _, pod in ipairs(rescue and silent or {}) do
  local info = pod_record(pod)
  if info and info.source == CONST.SOURCE_API then
    pod_close(pod, info)
  end
end
for _, pod in ipairs(silent) do
  if #ended >= CALLS_MAX * CONST.ENDED_TEXTS then
    more = 1
    break
  end
  local info = pod_record(pod)
  looked = looked + 1
  if info and info.source == CONST.SOURCE_API then
    if not pod_remove(pod, info, ended) then
      more = 1
      break
    end
    gone[#gone + 1] = pod
  end
  rc('ZREM', KEY.HEARTBEATS, pod)
  if not info then
    rc('HDEL', P .. 'pods:heard', pod) -- another program has removed it
  end
end
if looked == tonumber(ARG.limit) then
  more = 1
end
local page = ARG.cursor == '' and {'', {}} or
  rc('SSCAN', P .. 'pods:out', ARG.cursor, 'COUNT', ARG.limit)
table.sort(page[2]) -- free ones of a tier that was removed join others, one by one
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
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
