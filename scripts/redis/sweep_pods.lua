-- Looks at pods whose time may have come, at most ARGV[7] of each kind: those that have been silent since
-- now - ARGV[6] ms, and, from cursor ARGV[8] on unless that is '', those that are held out of their pools. ARGV[4] is
-- the fence, ARGV[5] see lib/late.lua.
--
-- Answers {next cursor, are there more silent ones, pods brought back, the time, number of pods gone, their names…,
-- ended calls, five texts each}.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include late
-- include pods
-- include calls
local CALLS_MAX = 50 -- what one script may end
local recovered, gone, ended, more, looked = 0, {}, {}, 0, 0
local silent = IS_FORGIVING and {} or
  rc('ZRANGEBYSCORE', P .. 'heartbeats', '-inf', now - tonumber(ARGV[6]), 'LIMIT', 0, ARGV[7])
for _, pod in ipairs(silent) do
  if #ended >= CALLS_MAX * 5 then
    more = 1
    break
  end
  local info = pod_record(pod)
  rc('ZREM', P .. 'heartbeats', pod)
  looked = looked + 1
  if info and info.source == 'api' then
    for _, call_sid in ipairs(pod_calls(pod)) do
      call_ended(ended, call_sid, call_record(call_sid), 'gone')
      call_drop(call_sid, pod, info.tier)
    end
    pod_leave(pod, info)
    gone[#gone + 1] = pod
  end
end
if looked == tonumber(ARGV[7]) then
  more = 1
end
local page = ARGV[8] == '' and {'', {}} or rc('SSCAN', P .. 'pods:out', ARGV[8], 'COUNT', ARGV[7])
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
