-- Ends calls and gives their pods back to the pools that the pods belong to now.
--
-- ARGV: 4 how many texts there are for each, 1 or 4; 5… these: call_sid, the pod that it must be on, or a pattern, or '', how
-- it ends if it is not just 'released' (see lib/ended.lua), the provider whose webhook asks or ''. Answers, for each, an error,
-- {0} if there is no such call, {2} if it is not that provider's, or
-- {1, pod, pool it came from, merchant, provider, allocated_at, pod's record or '', tier now or '', was draining}.
--
-- Written out for the common cases, a pod of an exclusive or shared tier that may take calls; the others go by the
-- library. Nine commands for an exclusive pod, eleven to fourteen for a shared one, and two for all of them.
-- include base
-- include deadline
-- include fresh
-- include each
local GRACE = 60000 -- as in lib/lease.lua
local READY = '{"ready":true,"terminating":false,"held_until":0,"tier":"'

local SIZE = tonumber(ARGV[4])

local function release(call_sid, on_pod, why, provider)
  local call_key = P .. 'call:' .. call_sid
  local record = rc('HMGET', call_key, 'pod_name', 'source_pool', 'merchant_id', 'provider', 'allocated_at',
    'renewed', 'reseller_id')
  local pod = record[1]
  if not pod then
    return {0}
  end
  if SIZE == 4 then
    -- include fits
    -- include owner
    if on_pod ~= '' and not pod_fits(on_pod, pod) then
      return {0}
    end
    if provider ~= '' and call_is_of_others(record, provider) then
      return {2}
    end
  end
  local carriers = record[6] and rc('HGET', call_key, 'carriers')
  local info = rc('HGET', P .. 'pods', pod)
  record[3] = record[3] or record[7] -- as call_record() in lib/calls.lua
  local answer = {1, pod, record[2] or '', record[3] or '', record[4] or '', record[5] or '0', info or '', '', 0}
  if info and string.sub(info, 1, #READY) == READY then
    local lease, calls, state = P .. 'lease:' .. pod, P .. 'pod:calls:' .. pod, P .. 'pod:' .. pod
    local tier = string.match(info, '^[^"]+', #READY + 1) or ''
    local _, last = string.find(ARGV[2], '\n' .. tier .. ' ', 1, true)
    local available = string.sub(tier, 1, 9) == 'merchant:' and P .. tier .. ':pods' or
      P .. 'pool:' .. tier .. ':available'
    -- Else the pod has changed its tier since, or another program has changed it and our record is old: the library knows.
    local is_its_own = last and record[2] == (string.sub(tier, 1, 9) == 'merchant:' and tier or 'pool:' .. tier)
    local is_exclusive = is_its_own and string.sub(ARGV[2], last + 1, last + 2) == '0 '
    local is_done
    if is_exclusive then
      if rc('EXISTS', P .. 'pod:draining:' .. pod, calls) == 0 and rc('GET', lease) == call_sid then
        rc('DEL', call_key, lease, state)
        rc('ZREM', KEYS[1], call_sid)
        rc('HSET', state, 'status', 'available', 'released_at', time[1])
        -- Not listed: the tier's type has changed, and this router has not heard of it. The sweep will see to it.
        local listed = redis.pcall('SADD', available, pod)
        rc(type(listed) == 'table' and 'SADD' or 'SREM', P .. 'pods:out', pod)
        is_done = true
      end
    elseif is_its_own and rc('EXISTS', P .. 'pod:draining:' .. pod) == 0 and rc('ZREM', calls, call_sid) == 1 then
      -- As pod_count() in lib/score.lua: the score also counts calls that only the first implementation knows of.
      local score = redis.pcall('ZADD', available, 'XX', 'INCR', '-1', pod)
      local load = type(score) == 'string' and tonumber(score) or -1
      if load < 0 then
        rc('ZADD', calls, '0', call_sid) -- it is not in its list, or not as it should be: the library knows
      else
        redis.pcall('SREM', P .. 'pod:' .. pod .. ':calls', call_sid)
        if load == 0 then
          rc('DEL', call_key, lease, state)
          rc('HSET', state, 'status', 'available', 'released_at', time[1])
        else
          rc('DEL', call_key)
          local newest = rc('GET', lease) == call_sid and rc('ZREVRANGE', calls, '0', '0', 'WITHSCORES') or {}
          if newest[1] then
            rc('SET', lease, newest[1], 'PX', math.max(1, tonumber(newest[2]) - now + GRACE))
            rc('HSET', state, 'allocated_call_sid', newest[1])
          end
        end
        rc('ZREM', KEYS[1], call_sid)
        local max = tonumber(string.match(ARGV[2], '^%d+', last + 1))
        if load >= max then
          rc(load > max and 'SADD' or 'SREM', P .. 'pods:over', pod)
        end
        is_done = true
      end
    end
    if is_done then
      if record[6] then
        -- include ended
        call_over(call_sid, SIZE == 4 and why or 'released', carriers)
      end
      answer[8] = tier
      return answer
    end
  end
  -- include finish
  -- include ended
  if record[6] then
    call_over(call_sid, SIZE == 4 and why or 'released', '') -- its carriers are told when it is dropped
  end
  return call_finish(call_sid, record)
end

return each(5, SIZE, release)
