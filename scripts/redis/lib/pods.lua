-- include tiers
-- include lease
-- include other
-- What is known of a pod is one field of the hash {prefix}pods. It starts with the flags, so that the common
-- case, a pod that may take calls, is recognised by comparing text.
local function pod_encode(info)
  return string.format(
    '{"ready":%s,"terminating":%s,"held_until":%.0f,"tier":"%s","source":"%s","pinned":%s,"incarnation":"%s","address":"%s"}',
    tostring(info.ready), tostring(info.terminating), info.held_until, info.tier, info.source, tostring(info.pinned),
    info.incarnation, info.address)
end

local SOURCES = {api = true, static = true, kubernetes = true}

-- What pod_encode() has written; nil for everything else, which somebody has made by hand.
local function pod_decode(text)
  local is_read, info = pcall(cjson.decode, text)
  if is_read and type(info) == 'table' and SOURCES[info.source] then
    local is_written, again = pcall(pod_encode, info)
    return is_written and again == text and info.held_until >= 0 and info.held_until < 1e15 and info or nil
  end
end

-- A record that cannot be read is deleted, and the pod is as one whose record was lost: whoever speaks of it next, its
-- source or the pod itself, registers it anew, and its calls stay.
local function pod_record(pod)
  local text = rc('HGET', P .. 'pods', pod)
  local info = text and pod_decode(text)
  if text and not info then
    rc('HDEL', P .. 'pods', pod)
  end
  return info
end

-- What is known of a registered pod. One that has a tier but no record was registered by the first implementation; while
-- that leads, its tier counts, and our records may be of the time before. Of such a pod (`is_foreign`) nothing is written
-- down but what the other program writes, too.
local function pod_get(pod)
  local info = pod_record(pod)
  if info and not other_leads() or not info and all_pods_are_ours() then
    return info
  end
  local tier = rc('GET', P .. 'pod:tier:' .. pod)
  if not tier then
    return nil
  end
  if not info or info.tier ~= tier then
    info = {ready = true, terminating = false, held_until = 0, tier = tier}
  end
  info.is_foreign = true
  return info
end

local function pod_put(pod, info)
  if not info.is_foreign then
    rc('HSET', P .. 'pods', pod, pod_encode(info))
  end
end

-- How many calls the pod carries. A shared pod has a set of them; an exclusive pod's lease says it all.
local function pod_load(pod)
  local load = rc('ZCARD', P .. 'pod:calls:' .. pod)
  return load > 0 and load or pod_lease(pod) and 1 or 0
end

local function pod_calls(pod)
  local calls = rc('ZRANGE', P .. 'pod:calls:' .. pod, 0, -1)
  if #calls == 0 then
    calls[1] = pod_lease(pod) or nil
  end
  return calls
end

local function pod_is_draining(pod, info)
  return info.terminating or rc('EXISTS', P .. 'pod:draining:' .. pod) == 1
end

local function pod_unlist(pod, tier)
  -- The key may be of the other type for a moment after the tier's type has changed.
  local key = available_key(tier)
  redis.pcall('SREM', key, pod)
  redis.pcall('ZREM', key, pod)
end

-- The tier was exclusive when the pod got its call: from now on the pod keeps a set of them.
local function pod_share(pod)
  local call_sid = rc('EXISTS', P .. 'pod:calls:' .. pod) == 0 and rc('GET', P .. 'lease:' .. pod)
  if call_sid then
    local expiry = rc('ZSCORE', P .. 'calls:active', call_sid) or now + rc('PTTL', P .. 'lease:' .. pod)
    rc('ZADD', P .. 'pod:calls:' .. pod, expiry, call_sid)
  end
end

-- Puts the pod where its flags and its load say that it belongs. Returns its load and whether it is held out.
--
-- A shared pod stays in its list when it is full, with its calls as the score: the first implementation gives a pod that is
-- not there the score 0.
--
-- {prefix}pods:out has the pods that are held out, and those that cannot be listed because the router that asks
-- has not heard yet that the tier's type has changed: a sweep looks there. {prefix}pods:over has those with more
-- calls than their tier allows now. Any other pod that is not listed is just full, so that counts need no more.
local function pod_place(pod, info)
  local max = tier_max(info.tier)
  local load = pod_load(pod)
  local room = (max or 0) > 0 and max or 1
  local is_flagged = rc('EXISTS', P .. 'pod:draining:' .. pod) == 1
  local is_out = is_flagged or info.terminating or not info.ready or info.held_until > now
  local listed
  if (max or 0) > 0 then
    if load > 0 then
      pod_share(pod)
    end
    if is_out and info.is_foreign and not is_flagged then
      listed = 0 -- the other program may know better: it does not get into the list by us, nor out of it
    elseif is_out then
      listed = redis.pcall('ZREM', available_key(info.tier), pod)
    else
      listed = redis.pcall('ZADD', available_key(info.tier), 'NX', load, pod)
    end
  else
    -- A tier that is no longer configured has a list, too: no chain reaches it, but it is counted.
    listed = redis.pcall(load == 0 and not is_out and 'SADD' or 'SREM', available_key(info.tier), pod)
  end
  if not info.is_foreign then
    local is_unlisted = type(listed) == 'table'
    rc((is_out or is_unlisted) and 'SADD' or 'SREM', P .. 'pods:out', pod)
    rc(load > room and 'SADD' or 'SREM', P .. 'pods:over', pod)
  end
  return load, is_out
end

local function pod_metadata(pod, tier)
  return string.format('{"tier":"%s","name":"%s"}', tier, pod)
end

local function pod_assign(pod, info, tier)
  info.tier = tier
  rc('SADD', assigned_key(tier), pod)
  rc('SADD', P .. 'tiers:used', tier)
  rc('SET', P .. 'pod:tier:' .. pod, tier)
  rc('HSET', P .. 'pod:metadata', pod, pod_metadata(pod, tier))
  pod_put(pod, info)
end

local function pod_move(pod, info, tier)
  pod_unlist(pod, info.tier)
  rc('SREM', assigned_key(info.tier), pod)
  pod_assign(pod, info, tier)
  pod_place(pod, info)
end

local function pod_leave(pod, info)
  pod_unlist(pod, info.tier)
  rc('SREM', assigned_key(info.tier), pod)
  rc('HDEL', P .. 'pods', pod)
  rc('HDEL', P .. 'pod:metadata', pod)
  rc('HDEL', P .. 'pods:doubt', pod)
  rc('ZREM', P .. 'pods:names', pod)
  rc('ZREM', P .. 'heartbeats', pod)
  rc('SREM', P .. 'pods:out', pod)
  rc('SREM', P .. 'pods:over', pod)
  rc('DEL', P .. 'pod:' .. pod, P .. 'pod:tier:' .. pod, P .. 'lease:' .. pod, P .. 'pod:draining:' .. pod,
    P .. 'pod:calls:' .. pod, P .. 'pod:' .. pod .. ':calls')
end

local function pod_should_leave(pod, info)
  return not info.ready and pod_load(pod) == 0 and not pod_is_draining(pod, info)
end

-- After every change to a pod: it leaves if it has nothing to stay for, else it is placed; a free pod whose
-- tier is no longer configured gets another one. Returns true if the pod has left.
local function pod_settle(pod, info)
  if not info.is_foreign and pod_should_leave(pod, info) then
    pod_leave(pod, info)
    return true
  end
  local load, is_out = pod_place(pod, info)
  if load == 0 and not is_out and not info.is_foreign and not tier_max(info.tier) then
    pod_move(pod, info, tier_for_new_pod())
  end
  return false
end
