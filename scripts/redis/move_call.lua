-- Moves a call away from a pod that cannot be reached. The pod is drained, and the call gets the
-- first free pod along its chain. The rules are those of src/core/move_call.c.
--
-- @arg lease_ms: the lease
-- @arg record_ms: the least life of a record
-- @arg aside_ms: for how long the pod is drained
-- @arg merchants: as for allocate
-- @arg chain_count: as for allocate
-- @list chain: as for allocate
-- @each call_sid: the call; there is only one
-- @each from: the pod
--
-- Answers {CALL_PLACED, or CALL_EXISTING if it is on another pod already; pod, pool, merchant,
-- provider, allocated_at, expiry, pod's record, unreadable}; {CALL_NO_POD, …} as allocate, and the
-- call stays; or {MOVE_NOT_FOUND; ENDED_TEXTS if a call was found to have ended}.
-- include base
-- include deadline
-- include current_tiers
local CHAIN_END = ARG_AT.chain_count + ARG.chain_count
local call_sid, from = ARGV[CHAIN_END + 1], ARGV[CHAIN_END + 2]
local aside_ms = tonumber(ARG.aside_ms)
local held_out_counts -- for lib/refusal.lua
-- include existing_call
-- include pick

local known = call_record(call_sid)
if not known[1] then
  return {CONST.MOVE_NOT_FOUND}
end
local answer, lost = call_existing(call_sid, known)
if not answer then
  table.insert(lost, 1, CONST.MOVE_NOT_FOUND)
  return lost
end
if tonumber(answer[7]) <= now then
  -- Its lease has expired, and somebody needs it: wherever it ends up, the next sweep must not end
  -- it.
  call_extend(call_sid, known[1], tonumber(ARG.lease_ms), tonumber(ARG.record_ms))
  answer[7] = string.format('%.0f', now + ARG.lease_ms)
end
if known[1] ~= from then
  return answer
end

-- First, so that the call cannot come back to this pod. A longer drain, or one without an end,
-- stays.
local left = rc('PTTL', P .. 'pod:draining:' .. from)
if left ~= -1 and left + 1 < aside_ms then
  rc('SET', P .. 'pod:draining:' .. from, CONST.DRAINED, 'PX', math.max(1, aside_ms - 1))
end
local from_info = pod_get(from)
if from_info then
  pod_place(from, from_info)
end

local merchant, provider, since = known[3] or '', known[4] or '', known[5] or time[1]
local FIELDS = {'attempts', 'renewed', 'connected', 'carriers'}
local kept = rc('HMGET', P .. 'call:' .. call_sid, unpack(FIELDS))
local chain, first, last, unreadable, missing = ARGV, ARG_AT.chain, CHAIN_END, 0, ''
if merchant ~= '' then
  -- include chain_of_merchant
  chain, first, last, unreadable, missing = chain_of_merchant(merchant, CHAIN_END)
end
for i = first, last, 2 do
  local pod, info, max, label = pod_pick(chain[i], chain[i + 1])
  if pod then
    past_add(call_sid, CONST.PAST_MOVED, known)
    call_drop(call_sid, from, from_info and from_info.tier or nil)
    if from_info then
      pod_settle(from, from_info)
    end
    call_new(call_sid, pod, label, max, tonumber(ARG.lease_ms), tonumber(ARG.record_ms))
    rc('HSET', P .. 'call:' .. call_sid, 'merchant_id', merchant, 'provider', provider,
      'allocated_at', since, 'placed_at', time[1])
    if not known[4] then
      rc('HDEL', P .. 'call:' .. call_sid, 'provider') -- see lib/provider.lua
    end
    for k, field in ipairs(FIELDS) do
      if kept[k] then
        rc('HSET', P .. 'call:' .. call_sid, field, kept[k])
      end
    end
    local to_info = pod_get(pod)
    if to_info then
      pod_place(pod, to_info)
    end
    return {CONST.CALL_PLACED, pod, label, merchant, provider, since,
      string.format('%.0f', now + ARG.lease_ms), info, unreadable}
  end
end
-- include refusal
return refusal(call_sid, merchant, provider, chain, first, last, unreadable, missing)
