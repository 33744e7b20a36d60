-- include tiers
-- include lease
-- include tell
-- include score
-- Is it one of the first implementation, which knows nothing of attempts?
local function call_is_foreign(call_sid)
  local known = rc('HMGET', P .. 'call:' .. call_sid, 'pod_name', 'attempts')
  return known[1] and not known[2]
end

-- Takes the call away: its record, its lease if that is its own, its place on the pod. The pod is not settled. `tier` is the
-- pod's; nil: look it up; false: the record is gone, so that nobody knows whether the pod's score still counts the call
-- (a sweep will: see lib/mend.lua).
local function call_drop(call_sid, pod, tier)
  local calls = P .. 'pod:calls:' .. pod
  local holder = pod_lease(pod)
  local is_newest = holder == call_sid
  if tier == nil then
    tier = rc('GET', P .. 'pod:tier:' .. pod) or false
  end
  local has_slot = rc('ZREM', calls, call_sid) == 1 or
    (tier and (tier_max(tier) or 0) > 0 and call_is_foreign(call_sid))
  carriers_tell(call_sid, rc('HGET', P .. 'call:' .. call_sid, 'carriers'))
  rc('DEL', P .. 'call:' .. call_sid)
  rc('ZREM', P .. 'calls:active', call_sid)
  if not has_slot and not is_newest then
    return
  end
  local score = has_slot and tier and pod_count(pod, tier, -1)
  if has_slot then
    redis.pcall('SREM', P .. 'pod:' .. pod .. ':calls', call_sid)
  end
  local newest = rc('ZREVRANGE', calls, 0, 0, 'WITHSCORES')
  if newest[1] and is_newest then
    rc('SET', P .. 'lease:' .. pod, newest[1], 'PX', math.max(1, tonumber(newest[2]) - now + GRACE))
    rc('HSET', P .. 'pod:' .. pod, 'allocated_call_sid', newest[1])
  elseif not newest[1] and (score == 0 or (not score and (is_newest or not holder))) then
    local is_draining = rc('EXISTS', P .. 'pod:draining:' .. pod) == 1
    rc('DEL', P .. 'lease:' .. pod, P .. 'pod:' .. pod)
    rc('HSET', P .. 'pod:' .. pod, 'status', is_draining and 'draining' or 'available', 'released_at', time[1])
  end
  -- Else there are calls of the first implementation, which leaves the lease as it is until the last of them ends.
end

-- A record as five texts, for an answer that names a call that has ended.
local function call_ended(list, call_sid, record, why)
  local n = #list
  list[n + 1] = call_sid
  list[n + 2] = record[1] or ''
  list[n + 3] = record[2] or ''
  list[n + 4] = record[3] or ''
  list[n + 5] = why
end

-- pod, pool, merchant, provider, allocated_at. The first implementation calls a merchant a reseller in some of its versions.
local function call_record(call_sid)
  local record = rc('HMGET', P .. 'call:' .. call_sid, 'pod_name', 'source_pool', 'merchant_id', 'provider', 'allocated_at',
    'reseller_id')
  record[3] = record[3] or record[6]
  return record
end

-- On a shared pod of the first implementation only the newest call has a lease, and no call is in a list of ours before
-- import.lua has been by: there the record of a call counts.
local function record_counts(call_sid, pod)
  local tier = call_is_foreign(call_sid) and rc('GET', P .. 'pod:tier:' .. pod)
  return tier and (tier_max(tier) or 0) > 0
end

-- When its lease ends; 0 if it has no claim on the pod. The list of all calls says it. Where that was deleted by
-- hand, or the call is one of the first implementation, which kept no list: the pod's list, or the key of the lease
-- if that is the call's own, or the record.
local function call_expiry(call_sid, pod)
  local expiry = rc('ZSCORE', P .. 'calls:active', call_sid) or rc('ZSCORE', P .. 'pod:calls:' .. pod, call_sid)
  if expiry then
    return math.min(tonumber(expiry), 1e15) -- one that was made by hand may be infinite
  end
  local key = P .. 'lease:' .. pod
  if rc('GET', key) ~= call_sid then
    if not record_counts(call_sid, pod) then
      return 0
    end
    key = P .. 'call:' .. call_sid
  end
  local ttl = rc('PTTL', key)
  return ttl < 0 and now + 86400000 or now + ttl
end

-- The call takes a slot of a shared pod, unless it has one. The first implementation keeps a set of the pod's calls as well,
-- so that it can delete their records with the pod; whatever is wrong with that is no matter of ours.
local function call_share(call_sid, pod, tier, expiry)
  if rc('ZADD', P .. 'pod:calls:' .. pod, expiry, call_sid) == 1 then
    pod_count(pod, tier, 1)
  end
  redis.pcall('SADD', P .. 'pod:' .. pod .. ':calls', call_sid)
end

-- Makes a call on the pod, all but its place in the pool. `max` is 0 unless the pod is shared.
local function call_new(call_sid, pod, label, max, lease_ms, record_ms)
  local expiry = now + lease_ms
  rc('HSET', P .. 'call:' .. call_sid, 'pod_name', pod, 'source_pool', label, 'merchant_id', '', 'allocated_at',
    time[1], 'provider', '')
  rc('PEXPIRE', P .. 'call:' .. call_sid, math.max(lease_ms, record_ms) + RECORD_GRACE)
  if max > 0 then
    call_share(call_sid, pod, string.sub(label, 1, 5) == 'pool:' and string.sub(label, 6) or label, expiry)
  end
  rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', lease_ms + GRACE)
  rc('HSET', P .. 'pod:' .. pod, 'status', 'allocated', 'allocated_call_sid', call_sid, 'allocated_at', time[1],
    'source_pool', label)
  rc('ZADD', P .. 'calls:active', expiry, call_sid)
end

-- A new end of the lease, from now on.
local function call_extend(call_sid, pod, lease_ms, record_ms)
  local lease = P .. 'lease:' .. pod
  local expiry = now + lease_ms
  rc('ZADD', P .. 'calls:active', expiry, call_sid)
  rc('PEXPIRE', P .. 'call:' .. call_sid, math.max(lease_ms, record_ms) + RECORD_GRACE)
  rc('ZADD', P .. 'pod:calls:' .. pod, 'XX', expiry, call_sid)
  local newest = rc('GET', lease)
  if not newest or newest == call_sid then
    rc('SET', lease, call_sid, 'PX', lease_ms + GRACE)
  end
end

-- Somebody who knows says that the call goes on.
local function call_renew(call_sid, pod, lease_ms, record_ms)
  if rc('HSET', P .. 'call:' .. call_sid, 'misses', '0', 'renewed', '1') > 0 then
    -- For the first time: it has begun anew, and the recorded end of one before it counts no more.
    rc('DEL', P .. 'ended:' .. call_sid)
  end
  call_extend(call_sid, pod, lease_ms, record_ms)
end

-- Does the call that has this record still have its slot on the pod? A lease that ran out does not matter: a sweep ends
-- the call then, nobody else. But what has no slot any more must not be kept alive.
local function call_has_slot(call_sid, pod)
  if pod_lease(pod) == call_sid or rc('ZSCORE', P .. 'pod:calls:' .. pod, call_sid) then
    return true
  end
  return record_counts(call_sid, pod)
end

-- Which routers carry a call is in its record, one name after the other with commas between them. A router that has died does
-- not count: each says every now and then that it is there.
local CARRIER_TTL = 30000 -- CARRIER_TTL_MS in src/core/command.h

local function carrier_is_here(carrier)
  rc('SET', P .. 'carrier:' .. carrier, '1', 'PX', CARRIER_TTL)
end

local function call_carried(call_sid, carrier)
  local key = P .. 'call:' .. call_sid
  local others = rc('HGET', key, 'carriers')
  if not others or others == '' then
    rc('HSET', key, 'carriers', carrier)
  elseif not string.find(',' .. others .. ',', ',' .. carrier .. ',', 1, true) then
    local names = {carrier}
    for name in string.gmatch(others, '[^,]+') do
      if rc('EXISTS', P .. 'carrier:' .. name) == 1 then
        names[#names + 1] = name
      end
    end
    rc('HSET', key, 'carriers', table.concat(names, ','))
  end
end

-- This router does not carry it any more. Does another one? One that has said nothing for a while is dead, unless nobody
-- could be heard (`is_deaf`).
local function call_left(call_sid, carrier, is_deaf)
  local key = P .. 'call:' .. call_sid
  local names = {}
  for name in string.gmatch(rc('HGET', key, 'carriers') or '', '[^,]+') do
    if name ~= carrier and (is_deaf or rc('EXISTS', P .. 'carrier:' .. name) == 1) then
      names[#names + 1] = name
    end
  end
  rc('HSET', key, 'carriers', table.concat(names, ','))
  return names[1] ~= nil
end
