-- include base
-- include pods
-- include calls
-- @leaves CALLS_LOOK, DOUBTS, doubts_kind, mended, waiting, unexplained
-- Puts a pod back into its right place, after an edit by hand or a change by the first
-- implementation.
--
-- That program takes a pod with several commands. Between them the pod is in no list and has no
-- lease, or its score counts a call that has no record yet. So an error is noted in
-- {prefix}pods:doubt, with the time, and corrected only if it is still the same DOUBT_MS later. A
-- score that is too high, or lost, is set only after a look through all calls (import.lua): calls
-- that nobody knew may explain it.
local CALLS_LOOK = 20 -- calls of one pod in one look: the work does not grow with the calls
local DOUBTS = P .. 'pods:doubt'
local doubts_kind = rc('TYPE', DOUBTS).ok
if doubts_kind ~= 'hash' and doubts_kind ~= 'none' then
  rc('DEL', DOUBTS) -- made by hand
end
-- Numbers of pods: corrected; to be looked at again soon; to be looked at again after an import.
local mended, waiting, unexplained = 0, 0, 0

-- Some calls of the pod, other ones each time; all of them if they are few.
local function some_calls(pod)
  local count = rc('ZCARD', P .. 'pod:calls:' .. pod)
  if count == 0 then
    return {pod_lease(pod) or nil}
  end
  local first = count > CALLS_LOOK and now % (count - CALLS_LOOK + 1) or 0
  return rc('ZRANGE', P .. 'pod:calls:' .. pod, first, first + CALLS_LOOK - 1)
end

-- Do these calls have their records? Does the list of all calls exist?
local function are_known(calls)
  local keys = {}
  for i, call_sid in ipairs(calls) do
    keys[i] = P .. 'call:' .. call_sid
  end
  return #keys == 0 or
    (rc('EXISTS', unpack(keys)) == #keys and rc('ZSCORE', KEY.CALLS_ACTIVE, calls[1]))
end

-- Calls whose records were deleted leave the pod. Calls that are missing in the list of all calls
-- are added to it.
local function mend_calls(pod)
  for _, call_sid in ipairs(some_calls(pod)) do
    local owner = rc('HGET', P .. 'call:' .. call_sid, 'pod_name')
    if not owner then
      call_drop(call_sid, pod, false)
    elseif owner ~= pod then
      -- It ended, and began again on another pod, at the first implementation. The lease is left to
      -- expire: that program sometimes gives two pods to one call, and nobody knows which of them
      -- the call uses.
      rc('ZREM', P .. 'pod:calls:' .. pod, call_sid)
      redis.pcall('SREM', P .. 'pod:' .. pod .. ':calls', call_sid)
    elseif not rc('ZSCORE', KEY.CALLS_ACTIVE, call_sid) then
      rc('ZADD', KEY.CALLS_ACTIVE, call_expiry(call_sid, pod), call_sid)
    end
  end
end

-- If somebody has written another tier for the pod by hand, that tier counts, once the pod is idle.
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

-- The error in the place of a pod that may take calls: nil if there is none; else its description,
-- and whether calls that nobody knows may explain it. Fails if the list has another type than the
-- tier.
local function fault_of(pod, info, max, load)
  local key = available_key(info.tier)
  if max == 0 then
    local is_listed = rc('SISMEMBER', key, pod) == 1
    if is_listed == (load == 0) then
      return nil
    end
    -- With the pod's last change, so that two moments of two different calls do not look like one
    -- state.
    local state = redis.pcall('HMGET', P .. 'pod:' .. pod, 'allocated_call_sid', 'released_at')
    return string.format('%s %s %s', is_listed and 'listed' or 'lost', state[1] or '',
      state[2] or ''), false
  end
  local score = tonumber(rc('ZSCORE', key, pod) or nil)
  if not score then
    return 'lost', true
  elseif score ~= load then
    return string.format('score %+.0f', score - load), score > load
  end
end

-- The time at which the same error was first noted for this pod. A new error is noted now.
local function doubt_since(pod, fault)
  local at, before = string.match(rc('HGET', DOUBTS, pod) or '', '^(%d+) (.+)$')
  if before == fault then
    return tonumber(at)
  end
  rc('HSET', DOUBTS, pod, string.format('%.0f %s', now, fault))
  return now
end

-- Returns true if the pod has left. `imported_at`: when the last look through all calls began, 0 if
-- there was none.
local function pod_mend(pod, info, imported_at)
  mend_tier(pod, info)
  if not are_known(some_calls(pod)) then
    mend_calls(pod)
  end
  local max = tier_max(info.tier)
  if not max or not info.ready or info.held_until > now or
    rc('SISMEMBER', P .. 'pods:out', pod) == 1 or pod_is_draining(pod, info) then
    return pod_settle(pod, info)
  end
  local load = pod_load(pod)
  local is_read, fault, may_be_explained = pcall(fault_of, pod, info, max, load)
  if not is_read then
    return pod_settle(pod, info)
  end
  if fault and max > 0 then
    mend_calls(pod) -- a call that is on another pod by now is known, too
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
  if since > now - CONST.DOUBT_MS then
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
