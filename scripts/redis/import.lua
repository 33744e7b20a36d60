-- Takes over what the first implementation left: its pods, and its calls, of which it kept no list. Walks through
-- all keys, a bounded number at a time, and just once: when it is through, {prefix}calls:imported says so.
--
-- ARGV: 4 the fence, 5 cursor, 6 how many keys to look at, 7 CALL_MAX_DURATION in ms, 8 the pods' source.
-- Answers {next cursor, pods and calls taken over}.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include pods
-- include calls
local DONE = P .. 'calls:imported'
if rc('EXISTS', DONE) == 1 then
  return {'0', 0}
end

-- The sync that is under way will say whether the pod still exists and where. It gets no call until then, when all
-- calls that it carries are known as well.
local function take_pod(pod)
  local tier = rc('GET', P .. 'pod:tier:' .. pod)
  if rc('HEXISTS', P .. 'pods', pod) == 1 then
    return 0
  end
  local info = {ready = true, terminating = false, held_until = 0, source = ARGV[8], pinned = false,
    incarnation = '', address = ''}
  rc('ZADD', P .. 'pods:names', 0, pod)
  pod_unlist(pod, tier)
  pod_assign(pod, info, tier)
  return 1
end

-- An exclusive pod belongs to the call that has its lease. On a shared pod every call counts that has not been
-- released and is not older than any call can be, so that no pod gets more than it can carry.
local function take_call(call_sid)
  local record = call_record(call_sid)
  local pod = record[1]
  if not pod then
    return 0 -- only a lock, which runs out by itself
  end
  local lease_end = call_expiry(call_sid, pod)
  local tier = rc('GET', P .. 'pod:tier:' .. pod)
  if tier and (tier_max(tier) or 0) > 0 then
    lease_end = math.min(lease_end, (tonumber(record[5]) or time[1]) * 1000 + tonumber(ARGV[7]))
    if lease_end > now then
      rc('ZADD', P .. 'pod:calls:' .. pod, lease_end, call_sid)
    end
  end
  if lease_end > now and rc('GET', P .. 'lease:' .. pod) == call_sid then
    rc('PEXPIRE', P .. 'lease:' .. pod, lease_end - now + GRACE) -- so that a sweep ends the call, as all others
  end
  return lease_end > now and rc('ZADD', P .. 'calls:active', 'NX', lease_end, call_sid) or 0
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
end
if page[1] == '0' then
  rc('SET', DONE, time[1])
end
return {page[1], taken}
