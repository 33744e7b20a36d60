-- Takes a call off a pod that cannot be reached: the pod is put aside, and the call gets the first that is free along its
-- chain. The rules are those of src/core/move.c.
--
-- ARGV: 4 lease in ms, 5 how long a record lives at least in ms, 6 how long the pod is put aside in ms, 7 to the end of
-- the default chain as for allocate; then call_sid and the pod that it is taken from.
--
-- Answers {0 moved or 1 on another pod already, pod, pool, merchant, provider, allocated_at, expiry, pod's record,
-- unreadable}, {2, …} as allocate does if there is no pod: the call stays where it is; or {3} if there is no such call,
-- and five texts behind it if there was one that was found to have ended.
-- include base
-- include deadline
-- include fresh
local CHAIN_END = 8 + ARGV[8]
local call_sid, from, aside = ARGV[CHAIN_END + 1], ARGV[CHAIN_END + 2], tonumber(ARGV[6])
local out_counts -- for refusal.lua
-- include existing

local known = call_record(call_sid)
if not known[1] then
  return {3}
end
local answer, lost = existing(known)
if not answer then
  table.insert(lost, 1, 3)
  return lost
end
if tonumber(answer[7]) <= now then
  -- Its lease has run out, and somebody needs it: wherever it is in the end, the next sweep must not end it.
  call_extend(call_sid, known[1], tonumber(ARGV[4]), tonumber(ARGV[5]))
  answer[7] = string.format('%.0f', now + ARGV[4])
end
if known[1] ~= from then
  return answer
end

-- First, so that the call cannot come back to this pod. Neither a longer drain is cut short, nor one without an end.
local left = rc('PTTL', P .. 'pod:draining:' .. from)
if left ~= -1 and left + 1 < aside then
  rc('SET', P .. 'pod:draining:' .. from, 'true', 'PX', math.max(1, aside - 1))
end
local from_info = pod_get(from)
if from_info then
  pod_place(from, from_info)
end

local merchant, provider, since = known[3] or '', known[4] or '', known[5] or time[1]
local FIELDS = {'attempts', 'renewed', 'connected', 'carriers'}
local kept = rc('HMGET', P .. 'call:' .. call_sid, unpack(FIELDS))
-- include route
for i = first, last, 2 do
  -- include pick
  if pod then
    call_drop(call_sid, from, from_info and from_info.tier or nil)
    if from_info then
      pod_settle(from, from_info)
    end
    call_new(call_sid, pod, label, max, tonumber(ARGV[4]), tonumber(ARGV[5]))
    rc('HSET', P .. 'call:' .. call_sid, 'merchant_id', merchant, 'provider', provider, 'allocated_at', since,
      'placed_at', time[1])
    if not known[4] then
      rc('HDEL', P .. 'call:' .. call_sid, 'provider') -- see lib/owner.lua
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
    return {0, pod, label, merchant, provider, since, string.format('%.0f', now + ARGV[4]), info, unreadable}
  end
end
-- include refusal
return refusal(chain, first, last, unreadable, missing)
