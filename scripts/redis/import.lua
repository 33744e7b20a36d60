-- Takes over what the first implementation has left, or is adding: its pods, and its calls, of which it keeps no list. Walks
-- through all keys, a bounded number at a time: when one of our routers begins to lead, and when a pod has calls that
-- nobody knows of.
--
-- ARGV: 4 the fence, 5 cursor, 6 how many keys to look at, 7 CALL_MAX_DURATION in ms, 8 the pods' source, '': calls only.
-- Answers {next cursor, pods and calls taken over, the time}.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include pods
-- include calls

-- The pod stays in the lists where it is: it may get calls at once. The sync that is under way will say whether it still
-- exists and where. One that only has a tier left, and stands in no list, is a new pod to that sync.
local function take_pod(pod)
  local tier = rc('GET', P .. 'pod:tier:' .. pod)
  if ARGV[8] == '' or rc('HEXISTS', P .. 'pods', pod) == 1 or rc('SISMEMBER', assigned_key(tier), pod) == 0 then
    return 0
  end
  rc('ZADD', P .. 'pods:names', 0, pod)
  if ARGV[8] == 'api' then
    rc('ZADD', P .. 'heartbeats', now, pod) -- it has to say something from now on
  end
  pod_assign(pod, {ready = true, terminating = false, held_until = 0, source = ARGV[8], pinned = false, incarnation = '',
    address = ''}, tier)
  return 1
end

-- An exclusive pod belongs to the call that has its lease. On a shared pod every call counts that has not been
-- released and is not older than any call can be, so that no pod gets more than it can carry. Its score counts them already.
local function take_call(call_sid)
  local record = call_record(call_sid)
  local pod = record[1]
  if not pod or not call_is_foreign(call_sid) then
    return 0 -- one of ours, or only a lock, which runs out by itself
  end
  local lease_end = call_expiry(call_sid, pod)
  local tier = rc('GET', P .. 'pod:tier:' .. pod)
  if tier and (tier_max(tier) or 0) > 0 then
    lease_end = math.min(lease_end, (tonumber(record[5]) or time[1]) * 1000 + tonumber(ARGV[7]))
    if lease_end > now then
      rc('ZADD', P .. 'pod:calls:' .. pod, lease_end, call_sid)
      redis.pcall('SADD', P .. 'pod:' .. pod .. ':calls', call_sid)
    end
  end
  if lease_end > now and rc('GET', P .. 'lease:' .. pod) == call_sid then
    rc('PEXPIRE', P .. 'lease:' .. pod, lease_end - now + GRACE) -- so that a sweep ends the call, as all others
  end
  return lease_end > now and rc('ZADD', P .. 'calls:active', 'NX', lease_end, call_sid) or 0
end

-- The calls of a shared pod, in newer versions of it: those that have ended here are still in there.
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
local page = rc('SCAN', ARGV[5], 'MATCH', pattern, 'COUNT', ARGV[6])
for _, key in ipairs(page[2]) do
  take(key, 'string', 'pod:tier:', take_pod)
  take(key, 'hash', 'call:', take_call)
  take(key, 'set', 'pod:', tidy_set)
end
if page[1] == '0' and ARGV[8] ~= '' then
  -- See lib/other.lua. A leader without election has no name before its first sweep.
  rc('SET', P .. 'leader:imported', rc('GET', P .. 'leader:ours') or 'without election')
end
return {page[1], taken, string.format('%.0f', now)}
