-- A page of pods in the order of their names, or one pod.
--
-- @arg after: the name after which the page begins; or the name of the one pod
-- @arg limit: how many pods; '': one pod
--
-- Answers {server's time, 1 if there are more else 0, number of names looked at, the last of
-- them; for each pod: name, record, 1 if it is draining, the end of its drain, 1 if it is held out,
-- last sign of life or '', last heartbeat or '', newest call or '', number of calls, calls…}. The
-- end of a drain is a time, DRAIN_HAS_NO_END, DRAIN_IS_SURPLUS, or '' if nobody drained the pod.
-- include base
-- include pods
local names
local answer = {string.format('%.0f', now), 0, 0, ''}
if ARG.limit == '' then
  names = {ARG.after}
else
  local limit = tonumber(ARG.limit)
  names = rc('ZRANGEBYLEX', P .. 'pods:names', ARG.after == '' and '-' or '(' .. ARG.after, '+',
    'LIMIT', 0, limit + 1)
  if #names > limit then
    names[#names] = nil
    answer[2] = 1
  end
end
-- The flag lives a millisecond less than the drain: see drain.lua.
local function drain_end(pod)
  local left = rc('PTTL', P .. 'pod:draining:' .. pod)
  if left == -2 then
    return ''
  end
  if left == -1 then
    return redis.pcall('GET', P .. 'pod:draining:' .. pod) == CONST.DRAINED_AS_SURPLUS and
      CONST.DRAIN_IS_SURPLUS or CONST.DRAIN_HAS_NO_END
  end
  return string.format('%.0f', now + left + 1)
end

answer[3] = #names
answer[4] = names[#names] or ''
local has_doubts = rc('TYPE', P .. 'pods:doubt').ok == 'hash'
for _, pod in ipairs(names) do
  local text = rc('HGET', KEY.PODS, pod)
  local info = text and pod_decode(text)
  local tier = not info and ARG.limit == '' and rc('GET', P .. 'pod:tier:' .. pod)
  if tier then
    -- Registered by the first implementation: there is no record, so it is on no page.
    info = {ready = true, terminating = false, held_until = 0, tier = tier,
      source = CONST.SOURCE_KUBERNETES, pinned = false, incarnation = '', address = ''}
    text = pod_encode(info)
  end
  if info then
    local calls = pod_calls(pod)
    local n = #answer
    answer[n + 1] = pod
    answer[n + 2] = text
    local ends_at = drain_end(pod)
    answer[n + 3] = (info.terminating or ends_at ~= '') and 1 or 0
    answer[n + 4] = ends_at
    answer[n + 5] = rc('SISMEMBER', P .. 'pods:out', pod)
    if has_doubts and
      string.find(rc('HGET', P .. 'pods:doubt', pod) or '', ' lost', 1, true) then
      answer[n + 5] = 1 -- see lib/mend.lua
    end
    answer[n + 6] = rc('ZSCORE', KEY.HEARTBEATS, pod) or ''
    answer[n + 7] = rc('HGET', P .. 'pods:heard', pod) or ''
    answer[n + 8] = pod_lease(pod) or ''
    answer[n + 9] = #calls
    for k = 1, #calls do
      answer[n + 9 + k] = calls[k]
    end
  end
end
return answer
