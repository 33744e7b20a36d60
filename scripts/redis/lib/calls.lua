-- include base
-- include tiers
-- include lease
-- include granted
-- include past
-- include score
-- Is it a call of the first implementation, whose records have no attempts?
local function call_is_foreign(call_sid)
  local known = rc('HMGET', P .. 'call:' .. call_sid, 'pod_name', 'attempts')
  return known[1] and not known[2]
end

-- Removes the call: its record, its lease if it is the call's own, its slot on the pod. The pod is
-- not settled. `tier` is the pod's tier. nil: it is looked up. false: the record is gone, so nobody
-- knows whether the pod's score still counts the call (a sweep will: see lib/mend.lua).
local function call_drop(call_sid, pod, tier)
  local calls = P .. 'pod:calls:' .. pod
  local holder = pod_lease(pod)
  local is_newest = holder == call_sid
  if tier == nil then
    tier = rc('GET', P .. 'pod:tier:' .. pod) or false
  end
  local has_slot = rc('ZREM', calls, call_sid) == 1 or
    (tier and (tier_max(tier) or 0) > 0 and call_is_foreign(call_sid))
  local told = rc('HMGET', P .. 'call:' .. call_sid, 'carriers', 'granted')
  carriers_end(call_sid, told[1])
  if told[2] then
    granted_end(call_sid, told[2])
  end
  rc('DEL', P .. 'call:' .. call_sid)
  rc('ZREM', KEY.CALLS_ACTIVE, call_sid)
  if not has_slot and not is_newest then
    return
  end
  local score = has_slot and tier and pod_count(pod, tier, -1)
  if has_slot then
    redis.pcall('SREM', P .. 'pod:' .. pod .. ':calls', call_sid)
  end
  local newest = rc('ZREVRANGE', calls, 0, 0, 'WITHSCORES')
  if newest[1] and is_newest then
    rc('SET', P .. 'lease:' .. pod, newest[1], 'PX',
      math.max(1, tonumber(newest[2]) - now + CONST.GRACE_MS))
    rc('HSET', P .. 'pod:' .. pod, 'allocated_call_sid', newest[1])
  elseif not newest[1] and (score == 0 or (not score and (is_newest or not holder))) then
    local is_draining = rc('EXISTS', P .. 'pod:draining:' .. pod) == 1
    rc('DEL', P .. 'lease:' .. pod, P .. 'pod:' .. pod)
    rc('HSET', P .. 'pod:' .. pod, 'status', is_draining and 'draining' or 'available',
      'released_at', time[1])
  end
  -- Else there are calls of the first implementation. That program leaves the lease as it is until
  -- the last of them ends.
end

-- Ends a call that has this record, for the reason `why`. `ended` gets its ENDED_TEXTS, for an
-- answer. `tier` as for call_drop(). The pod is not settled.
local function call_end(ended, call_sid, record, pod, tier, why)
  local n = #ended
  ended[n + 1] = call_sid
  ended[n + 2] = record[1] or ''
  ended[n + 3] = record[2] or ''
  ended[n + 4] = record[3] or ''
  ended[n + 5] = why
  if record[1] then
    past_add(call_sid, why, record)
  end
  call_drop(call_sid, pod, tier)
end

-- pod, pool, merchant, provider, allocated_at, and [7] the field `granted`. Some versions of the
-- first implementation call a merchant a reseller.
local function call_record(call_sid)
  local record = rc('HMGET', P .. 'call:' .. call_sid, 'pod_name', 'source_pool', 'merchant_id',
    'provider', 'allocated_at', 'reseller_id', 'granted')
  record[3] = record[3] or record[6]
  return record
end

-- On a shared pod of the first implementation only the newest call has a lease, and no call is in
-- our
-- list before import.lua has run. There the record of a call counts.
local function record_counts(call_sid, pod)
  local tier = call_is_foreign(call_sid) and rc('GET', P .. 'pod:tier:' .. pod)
  return tier and (tier_max(tier) or 0) > 0
end

-- The end of its lease; 0 if it has no claim on the pod. The list of all calls has it. If that list
-- was deleted by hand, or the call is one of the first implementation, which has no such list: the
-- pod's list has it, or the key of the lease if it is the call's own, or the record.
local function call_expiry(call_sid, pod)
  local expiry = rc('ZSCORE', KEY.CALLS_ACTIVE, call_sid) or
    rc('ZSCORE', P .. 'pod:calls:' .. pod, call_sid)
  if expiry then
    return math.min(tonumber(expiry), 1e15) -- a score that was set by hand may be infinite
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

-- The call takes a slot of a shared pod, unless it has one. The first implementation also has a set
-- of the pod's calls, and deletes their records with the pod. Errors of that set do not matter
-- here.
local function call_share(call_sid, pod, tier, expiry)
  if rc('ZADD', P .. 'pod:calls:' .. pod, expiry, call_sid) == 1 then
    pod_count(pod, tier, 1)
  end
  redis.pcall('SADD', P .. 'pod:' .. pod .. ':calls', call_sid)
end

-- Makes a call on the pod, except for the pod's place in the pool. `max` is 0 unless the pod is
-- shared.
local function call_new(call_sid, pod, label, max, lease_ms, record_ms)
  local expiry = now + lease_ms
  rc('HSET', P .. 'call:' .. call_sid, 'pod_name', pod, 'source_pool', label, 'merchant_id', '',
    'allocated_at', time[1], 'provider', '')
  rc('PEXPIRE', P .. 'call:' .. call_sid, math.max(lease_ms, record_ms) + CONST.RECORD_GRACE_MS)
  if max > 0 then
    local is_tier = string.sub(label, 1, #CONST.POOL_LABEL_PREFIX) == CONST.POOL_LABEL_PREFIX
    local tier = is_tier and string.sub(label, #CONST.POOL_LABEL_PREFIX + 1) or label
    call_share(call_sid, pod, tier, expiry)
  end
  rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', lease_ms + CONST.GRACE_MS)
  rc('HSET', P .. 'pod:' .. pod, 'status', 'allocated', 'allocated_call_sid', call_sid,
    'allocated_at', time[1], 'source_pool', label)
  rc('ZADD', KEY.CALLS_ACTIVE, expiry, call_sid)
end

-- The lease gets a new end, counted from now.
local function call_extend(call_sid, pod, lease_ms, record_ms)
  local lease = P .. 'lease:' .. pod
  local expiry = now + lease_ms
  rc('ZADD', KEY.CALLS_ACTIVE, expiry, call_sid)
  rc('PEXPIRE', P .. 'call:' .. call_sid, math.max(lease_ms, record_ms) + CONST.RECORD_GRACE_MS)
  rc('ZADD', P .. 'pod:calls:' .. pod, 'XX', expiry, call_sid)
  local newest = rc('GET', lease)
  if not newest or newest == call_sid then
    rc('SET', lease, call_sid, 'PX', lease_ms + CONST.GRACE_MS)
  end
end

-- The field `renewed` of a record. Its existence says that the call was renewed: a record of an
-- older version has '1' there.
local function renewed_by(who)
  return string.format('%s %.0f', who, now)
end

-- A granted call is taken: from now on it is a call like others.
local function call_take(call_sid)
  rc('HDEL', P .. 'call:' .. call_sid, 'granted')
  granted_forget(call_sid)
end

-- A pod, a router or a client (`who`) says that the call continues.
local function call_renew(call_sid, pod, who, lease_ms, record_ms)
  if rc('HSET', P .. 'call:' .. call_sid, 'misses', '0', 'renewed', renewed_by(who)) > 0 then
    -- The first renewal: this is a new call, and the tombstone of one before it does not count.
    rc('DEL', P .. 'ended:' .. call_sid)
  end
  call_extend(call_sid, pod, lease_ms, record_ms)
end

-- Does the call with this record still have its slot on the pod? An expired lease does not matter:
-- only a sweep ends the call then. But a call without a slot must not be kept alive.
local function call_has_slot(call_sid, pod)
  if pod_lease(pod) == call_sid or rc('ZSCORE', P .. 'pod:calls:' .. pod, call_sid) then
    return true
  end
  return record_counts(call_sid, pod)
end

-- The routers that carry a call are in its record, with commas between their names. A dead router
-- does not count: each live router renews its key.
local function carrier_is_here(carrier)
  -- Its value is the version, which present writes.
  if rc('PEXPIRE', P .. 'carrier:' .. carrier, CONST.CARRIER_TTL_MS) == 0 then
    rc('SET', P .. 'carrier:' .. carrier, '', 'PX', CONST.CARRIER_TTL_MS)
  end
end

local function call_carried(call_sid, carrier)
  local key = P .. 'call:' .. call_sid
  local others = rc('HGET', key, 'carriers')
  if not others or others == '' then
    rc('HSET', key, 'carriers', carrier)
    rc('SADD', P .. 'carried:' .. carrier, call_sid)
  elseif not string.find(',' .. others .. ',', ',' .. carrier .. ',', 1, true) then
    local names = {carrier}
    for name in string.gmatch(others, '[^,]+') do
      if rc('EXISTS', P .. 'carrier:' .. name) == 1 then
        names[#names + 1] = name
      end
    end
    rc('HSET', key, 'carriers', table.concat(names, ','))
    rc('SADD', P .. 'carried:' .. carrier, call_sid)
  end
end

-- This router does not carry the call any more. Does another one? A router without its key is dead,
-- unless routers could not reach Redis until a moment ago (`is_after_outage`).
local function call_left(call_sid, carrier, is_after_outage)
  local key = P .. 'call:' .. call_sid
  local names = {}
  for name in string.gmatch(rc('HGET', key, 'carriers') or '', '[^,]+') do
    if name ~= carrier and (is_after_outage or rc('EXISTS', P .. 'carrier:' .. name) == 1) then
      names[#names + 1] = name
    end
  end
  rc('HSET', key, 'carriers', table.concat(names, ','))
  rc('SREM', P .. 'carried:' .. carrier, call_sid)
  return names[1] ~= nil
end
