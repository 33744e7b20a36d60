-- include pods
-- include calls
-- Puts a pod back that is not where it belongs, after an edit by hand or because of the first implementation.
--
-- That program takes a pod with several commands: between them the pod is in no list and has no lease, or its score counts a
-- call that has no record yet. So what looks wrong is noted in {prefix}pods:doubt, with the time, and put right only if it
-- is still the same DOUBT_MS later. A score that is too high, or lost, is set only after all calls were looked through
-- meanwhile (import.lua): the calls that nobody knew of may explain it.
local DOUBT_MS = 3000
local CALLS_LOOK = 20 -- of one pod, other ones each time: so the work does not grow with the calls
local DOUBTS = P .. 'pods:doubt'
local doubts_kind = rc('TYPE', DOUBTS).ok
if doubts_kind ~= 'hash' and doubts_kind ~= 'none' then
  rc('DEL', DOUBTS) -- made by hand
end
local mended, waiting, unexplained = 0, 0, 0 -- pods: put right; to be looked at again soon, or after an import

-- Some calls of the pod, all of them if they are few.
local function some_calls(pod)
  local count = rc('ZCARD', P .. 'pod:calls:' .. pod)
  if count == 0 then
    return {pod_lease(pod) or nil}
  end
  local first = count > CALLS_LOOK and now % (count - CALLS_LOOK + 1) or 0
  return rc('ZRANGE', P .. 'pod:calls:' .. pod, first, first + CALLS_LOOK - 1)
end

-- Do these calls have their records? Is the list of all calls there?
local function are_known(calls)
  local keys = {}
  for i, call_sid in ipairs(calls) do
    keys[i] = P .. 'call:' .. call_sid
  end
  return #keys == 0 or (rc('EXISTS', unpack(keys)) == #keys and rc('ZSCORE', P .. 'calls:active', calls[1]))
end

-- Calls whose records were deleted leave the pod; calls that are missing in the list of all calls come there.
local function mend_calls(pod)
  for _, call_sid in ipairs(some_calls(pod)) do
    local owner = rc('HGET', P .. 'call:' .. call_sid, 'pod_name')
    if not owner then
      call_drop(call_sid, pod, false)
    elseif owner ~= pod then
      -- It ended, and began again on another pod, at the first implementation. A lease is left to run out: that program gives
      -- one call two pods now and then, and nobody knows which of them is talking.
      rc('ZREM', P .. 'pod:calls:' .. pod, call_sid)
      redis.pcall('SREM', P .. 'pod:' .. pod .. ':calls', call_sid)
    elseif not rc('ZSCORE', P .. 'calls:active', call_sid) then
      rc('ZADD', P .. 'calls:active', call_expiry(call_sid, pod), call_sid)
    end
  end
end

-- The tier that somebody has written down for the pod by hand counts, once the pod is idle.
local function mend_tier(pod, info)
  local stored = rc('GET', P .. 'pod:tier:' .. pod)
  if stored == info.tier then
    return
  elseif not stored or info.pinned or not tier_max(stored) then
    rc('SET', P .. 'pod:tier:' .. pod, info.tier)
  elseif pod_load(pod) == 0 then
    pod_move(pod, info, stored)
  end
end

-- What is wrong with the place of a pod that may take calls: nothing (nil), or what to note of it, and whether calls that
-- nobody knows of may explain it. Error: the list is of another type than the tier.
local function fault_of(pod, info, max, load)
  local key = available_key(info.tier)
  if max == 0 then
    local is_listed = rc('SISMEMBER', key, pod) == 1
    if is_listed == (load == 0) then
      return nil
    end
    -- With what it did last, so that two moments of two different calls are not taken for one state.
    local state = redis.pcall('HMGET', P .. 'pod:' .. pod, 'allocated_call_sid', 'released_at')
    return string.format('%s %s %s', is_listed and 'listed' or 'lost', state[1] or '', state[2] or ''), false
  end
  local score = tonumber(rc('ZSCORE', key, pod) or nil)
  if not score then
    return 'lost', true
  elseif score ~= load then
    return string.format('score %+.0f', score - load), score > load
  end
end

-- Was the same noted of this pod before? Then when, else it is noted now.
local function doubt_since(pod, fault)
  local at, before = string.match(rc('HGET', DOUBTS, pod) or '', '^(%d+) (.+)$')
  if before == fault then
    return tonumber(at)
  end
  rc('HSET', DOUBTS, pod, string.format('%.0f %s', now, fault))
  return now
end

-- Returns true if the pod has left. `imported_at`: when the last look through all calls began, 0 if there was none.
local function pod_mend(pod, info, imported_at)
  mend_tier(pod, info)
  if not are_known(some_calls(pod)) then
    mend_calls(pod)
  end
  local max = tier_max(info.tier)
  if not max or not info.ready or info.held_until > now or rc('SISMEMBER', P .. 'pods:out', pod) == 1 or
    pod_is_draining(pod, info) then
    return pod_settle(pod, info)
  end
  local load = pod_load(pod)
  local is_read, fault, may_be_explained = pcall(fault_of, pod, info, max, load)
  if not is_read then
    return pod_settle(pod, info)
  end
  if fault and max > 0 then
    mend_calls(pod) -- one that is on another pod by now is known, too
    load = pod_load(pod)
    fault, may_be_explained = fault_of(pod, info, max, load)
  end
  rc(load > math.max(1, max) and 'SADD' or 'SREM', P .. 'pods:over', pod)
  if not fault then
    if doubts_kind == 'hash' then
      rc('HDEL', DOUBTS, pod)
    end
    return false
  end
  local since = doubt_since(pod, fault)
  if since > now - DOUBT_MS then
    waiting = waiting + 1
  elseif may_be_explained and since > imported_at then
    unexplained = unexplained + 1
  else
    rc('HDEL', DOUBTS, pod)
    rc('SADD', assigned_key(info.tier), pod)
    pod_unlist(pod, info.tier)
    pod_place(pod, info)
    mended = mended + 1
  end
  return false
end
