-- Takes over the pods and the calls of the first implementation, which has no list of its calls.
-- Walks through all keys, a bounded number at a time: when one of our routers begins to lead, and
-- when a pod has calls that nobody knows.
--
-- @arg fence: see lib/fence.lua
-- @arg cursor: of SCAN
-- @arg limit: how many keys to look at
-- @arg call_max_ms: CALL_MAX_DURATION
-- @arg source: the source of the pods; '': only calls are taken over
--
-- Answers {next cursor, number of pods and calls taken over, the time}.
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include pods
-- include calls

-- The pod stays in its lists and may get calls at once. The sync that is running says whether the
-- pod still exists, and where. A pod that has only a tier and is in no list is a new pod for that
-- sync.
local function take_pod(pod)
  local tier = rc('GET', P .. 'pod:tier:' .. pod)
  if ARG.source == '' or rc('HEXISTS', KEY.PODS, pod) == 1 or
    rc('SISMEMBER', assigned_key(tier), pod) == 0 then
    return 0
  end
  rc('ZADD', P .. 'pods:names', 0, pod)
  if ARG.source == CONST.SOURCE_API then
    rc('ZADD', KEY.HEARTBEATS, now, pod) -- from now on it must send heartbeats
  end
  pod_assign(pod, {ready = true, terminating = false, held_until = 0, source = ARG.source,
    pinned = false, incarnation = '', address = ''}, tier)
  return 1
end

-- An exclusive pod belongs to the call that has its lease. On a shared pod every call counts that
-- has not been released and is not older than a call can be, so that no pod gets too many calls.
-- The pod's score already counts them.
local function take_call(call_sid)
  local record = call_record(call_sid)
  local pod = record[1]
  if not pod or not call_is_foreign(call_sid) then
    return 0 -- one of ours; or only a lock, which expires by itself
  end
  local lease_end = call_expiry(call_sid, pod)
  local tier = rc('GET', P .. 'pod:tier:' .. pod)
  if tier and (tier_max(tier) or 0) > 0 then
    lease_end =
      math.min(lease_end, (tonumber(record[5]) or time[1]) * 1000 + tonumber(ARG.call_max_ms))
    if lease_end > now then
      rc('ZADD', P .. 'pod:calls:' .. pod, lease_end, call_sid)
      redis.pcall('SADD', P .. 'pod:' .. pod .. ':calls', call_sid)
    end
  end
  if lease_end > now and rc('GET', P .. 'lease:' .. pod) == call_sid then
    -- So that a sweep ends the call, as any other.
    rc('PEXPIRE', P .. 'lease:' .. pod, lease_end - now + CONST.GRACE_MS)
  end
  return lease_end > now and rc('ZADD', KEY.CALLS_ACTIVE, 'NX', lease_end, call_sid) or 0
end

-- Newer versions of that program keep a set of the calls of a shared pod. Calls that ended here are
-- still in it.
local function tidy_set(name)
  local key = P .. 'pod:' .. name
  for _, call_sid in ipairs(string.sub(name, -6) == ':calls' and rc('SMEMBERS', key) or {}) do
    if rc('EXISTS', P .. 'call:' .. call_sid) == 0 then
      rc('SREM', key, call_sid)
    end
  end
  return 0
end

local taken = 0
local function take(key, kind, text, take_one)
  local prefix = P .. text
  if string.sub(key, 1, #prefix) == prefix and rc('TYPE', key).ok == kind then
    taken = taken + take_one(string.sub(key, #prefix + 1))
  end
end

local pattern = string.gsub(P, '[%*%?%[%]\\]', '\\%0') .. '*'
local page = rc('SCAN', ARG.cursor, 'MATCH', pattern, 'COUNT', ARG.limit)
for _, key in ipairs(page[2]) do
  take(key, 'string', 'pod:tier:', take_pod)
  take(key, 'hash', 'call:', take_call)
  take(key, 'set', 'pod:', tidy_set)
end
if page[1] == '0' and ARG.source ~= '' then
  -- See lib/other_leader.lua. A leader without an election has no name before its first sweep.
  rc('SET', P .. 'leader:imported', rc('GET', P .. 'leader:ours') or 'without election')
end
return {page[1], taken, string.format('%.0f', now)}
