-- include base
-- include line_marks
-- Ends a call in the common case: its pod may take calls, its record `info` is a text that begins
-- with POD_FREE, and nothing about the call or the pod is unusual. Returns the pod's tier if the
-- call has ended; else nil, and call_release() of lib/release.lua must end it.
--
-- Nine commands for an exclusive pod, eleven to fourteen for a shared one. This is a second way to
-- end a call because releases are frequent: with call_release() alone one takes 1.96 times the
-- instructions on an exclusive pod, and 1.85 times on a shared one (callgrind, Redis 7.0).
local function call_release_common(call_sid, call_key, record, pod, info)
  local lease, calls, state = P .. 'lease:' .. pod, P .. 'pod:calls:' .. pod, P .. 'pod:' .. pod
  local tier = string.match(info, '^[^"]+', #CONST.POD_FREE + 1) or ''
  local _, last = string.find(ARG.tiers, '\n' .. tier .. ' ', 1, true)
  local is_merchant =
    string.sub(tier, 1, #CONST.MERCHANT_POOL_PREFIX) == CONST.MERCHANT_POOL_PREFIX
  if not last or record[2] ~= (is_merchant and tier or CONST.POOL_LABEL_PREFIX .. tier) then
    -- The pod has changed its tier since, or another program has changed it and our record is
    -- outdated.
    return nil
  end
  local available =
    is_merchant and P .. tier .. ':pods' or P .. CONST.POOL_LABEL_PREFIX .. tier .. ':available'
  if string.sub(ARG.tiers, last + 1, last + 2) == '0 ' then
    if rc('EXISTS', P .. 'pod:draining:' .. pod, calls) > 0 or rc('GET', lease) ~= call_sid then
      return nil
    end
    rc('DEL', call_key, lease, state)
    rc('ZREM', KEYS[1], call_sid)
    rc('HSET', state, 'status', 'available', 'released_at', time[1])
    -- An error: the tier's type has changed, and this router does not know it yet. A sweep lists
    -- the pod.
    local listed = redis.pcall('SADD', available, pod)
    rc(type(listed) == 'table' and 'SADD' or 'SREM', P .. 'pods:out', pod)
    if HAS_LINE then
      marked[tier] = true
    end
    return tier
  end
  if rc('EXISTS', P .. 'pod:draining:' .. pod) > 0 or rc('ZREM', calls, call_sid) == 0 then
    return nil
  end
  -- As pod_count() in lib/score.lua: the score also counts calls of the first implementation.
  local score = redis.pcall('ZADD', available, 'XX', 'INCR', '-1', pod)
  local load = type(score) == 'string' and tonumber(score) or -1
  if load < 0 then
    rc('ZADD', calls, '0', call_sid) -- the pod is not in its list, or its score is wrong
    return nil
  end
  redis.pcall('SREM', P .. 'pod:' .. pod .. ':calls', call_sid)
  if load == 0 then
    rc('DEL', call_key, lease, state)
    rc('HSET', state, 'status', 'available', 'released_at', time[1])
  else
    rc('DEL', call_key)
    local newest =
      rc('GET', lease) == call_sid and rc('ZREVRANGE', calls, '0', '0', 'WITHSCORES') or {}
    if newest[1] then
      rc('SET', lease, newest[1], 'PX', math.max(1, tonumber(newest[2]) - now + CONST.GRACE_MS))
      rc('HSET', state, 'allocated_call_sid', newest[1])
    end
  end
  rc('ZREM', KEYS[1], call_sid)
  local max = tonumber(string.match(ARG.tiers, '^%d+', last + 1))
  if load >= max then
    rc(load > max and 'SADD' or 'SREM', P .. 'pods:over', pod)
  end
  if HAS_LINE then
    marked[tier] = true
  end
  return tier
end
