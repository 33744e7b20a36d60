-- include base
-- include tiers
-- include lease
-- include other_leader
-- include line_marks
-- @leaves SOURCES, closed
-- The record of a pod is a field of the hash {prefix}pods: see interface.txt.
local function pod_encode(info)
  return string.format(CONST.POD_FORMAT, tostring(info.ready), tostring(info.terminating),
    info.held_until, info.tier, info.source, tostring(info.pinned), info.incarnation, info.address)
end

local SOURCES = {
  [CONST.SOURCE_API] = true, [CONST.SOURCE_STATIC] = true, [CONST.SOURCE_KUBERNETES] = true,
}

-- The data of a text that pod_encode() has written; nil for any other text, which was made by hand.
local function pod_decode(text)
  local is_read, info = pcall(cjson.decode, text)
  if is_read and type(info) == 'table' and SOURCES[info.source] then
    local is_written, again = pcall(pod_encode, info)
    return is_written and again == text and info.held_until >= 0 and info.held_until < 1e15 and
      info or nil
  end
end

-- A record that cannot be read is deleted. The pod is then as one whose record was lost: its
-- source, or the pod itself, registers it again, and its calls stay.
local function pod_record(pod)
  local text = rc('HGET', KEY.PODS, pod)
  local info = text and pod_decode(text)
  if text and not info then
    rc('HDEL', KEY.PODS, pod)
  end
  return info
end

-- The data of a registered pod. A pod with a tier but without a record was registered by the first
-- implementation. While that program leads, its tier counts, and our records may be older. Of such
-- a pod (`is_foreign`) nothing is stored but the data that the other program stores as well.
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
    rc('HSET', KEY.PODS, pod, pod_encode(info))
  end
end

-- The number of calls on the pod. A shared pod has a set of them. An exclusive pod has a lease.
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
  -- For a moment after the tier's type has changed the key may have the other type.
  local key = available_key(tier)
  redis.pcall('SREM', key, pod)
  redis.pcall('ZREM', key, pod)
end

-- The tier was exclusive when the pod got its call. From now on the pod has a set of calls.
local function pod_share(pod)
  local call_sid = rc('EXISTS', P .. 'pod:calls:' .. pod) == 0 and rc('GET', P .. 'lease:' .. pod)
  if call_sid then
    local expiry =
      rc('ZSCORE', KEY.CALLS_ACTIVE, call_sid) or now + rc('PTTL', P .. 'lease:' .. pod)
    rc('ZADD', P .. 'pod:calls:' .. pod, expiry, call_sid)
  end
end

-- Pods that get no call in this script, because they are about to leave.
local closed = {}

-- Puts the pod into the list that fits its flags and its load. Returns its load and whether it is
-- held out of its pool.
--
-- A shared pod stays in its list when it is full, with its number of calls as the score: the first
-- implementation gives the score 0 to a pod that is not in the list.
--
-- {prefix}pods:out has the pods that are held out. It also has the pods that cannot be listed
-- because the router does not know yet that the tier's type has changed. A sweep looks there.
-- {prefix}pods:over has the pods with more calls than their tier allows now. Any other pod that is
-- not listed is full, so counting needs nothing else.
local function pod_place(pod, info)
  local max = tier_max(info.tier)
  local load = pod_load(pod)
  local room = (max or 0) > 0 and max or 1
  local is_flagged = rc('EXISTS', P .. 'pod:draining:' .. pod) == 1
  local is_out = is_flagged or info.terminating or not info.ready or info.held_until > now or
    closed[pod] or false
  local listed
  if (max or 0) > 0 then
    if load > 0 then
      pod_share(pod)
    end
    if is_out and info.is_foreign and not is_flagged then
      listed = 0 -- the other program may know better: we neither list nor unlist it
    elseif is_out then
      listed = redis.pcall('ZREM', available_key(info.tier), pod)
    else
      listed = redis.pcall('ZADD', available_key(info.tier), 'NX', load, pod)
    end
  else
    -- A tier that is not configured any more has a list, too: no chain reaches it, but it is
    -- counted.
    listed =
      redis.pcall(load == 0 and not is_out and 'SADD' or 'SREM', available_key(info.tier), pod)
  end
  if HAS_LINE and not is_out and load < room then
    marked[info.tier] = true
  end
  if not info.is_foreign then
    local is_unlisted = type(listed) == 'table'
    rc((is_out or is_unlisted) and 'SADD' or 'SREM', P .. 'pods:out', pod)
    rc(load > room and 'SADD' or 'SREM', P .. 'pods:over', pod)
  end
  return load, is_out
end

local function pod_close(pod, info)
  closed[pod] = true
  pod_unlist(pod, info.tier)
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
  rc('HDEL', KEY.PODS, pod)
  rc('HDEL', P .. 'pod:metadata', pod)
  rc('HDEL', P .. 'pods:doubt', pod)
  rc('ZREM', P .. 'pods:names', pod)
  rc('ZREM', KEY.HEARTBEATS, pod)
  rc('HDEL', P .. 'pods:heard', pod)
  rc('SREM', P .. 'pods:out', pod)
  rc('SREM', P .. 'pods:over', pod)
  rc('DEL', P .. 'pod:' .. pod, P .. 'pod:tier:' .. pod, P .. 'lease:' .. pod,
    P .. 'pod:draining:' .. pod, P .. 'pod:calls:' .. pod, P .. 'pod:' .. pod .. ':calls')
end

local function pod_should_leave(pod, info)
  return not info.ready and pod_load(pod) == 0 and not pod_is_draining(pod, info)
end

-- To be called after every change to a pod. A pod that is not ready and has nothing to stay for
-- leaves; any other pod is placed. A free pod whose tier is not configured any more gets another
-- tier. Returns true if the pod has left.
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
