-- include base
-- include pick
-- allocate(): gives a pod to a call: the pod that it has, or the first free pod along its chain.
-- Returns the answer for that call: see release_and_allocate.lua.
--
-- This must be cheap. So it makes the call itself, instead of call_new() of lib/calls.lua: nine
-- commands for a call that gets a pod from the first pool of its chain. With call_new(), and the
-- part of the library that it needs, an allocation takes 1.3 times the instructions (callgrind,
-- Redis 7.0). Numbers for Redis are texts, because Redis formats each number as a floating-point
-- number, which takes half as long as a command.
-- @uses CHAIN_END, EXPIRY
local function allocate(call_sid, merchant, provider, attempt, is_webhook)
  local call_key = P .. 'call:' .. call_sid
  local lost
  if rc('HGET', call_key, 'pod_name') then
    -- include existing_call
    -- include provider
    -- include attempts
    local known = call_record(call_sid)
    local answer
    answer, lost = call_existing(call_sid, known)
    if answer and is_webhook == CONST.YES and call_has_other_provider(known, provider) then
      return {CONST.CALL_FORBIDDEN}
    end
    if answer then
      local attempts = rc('HGET', call_key, 'attempts')
      if attempts then
        rc('HSET', call_key, 'attempts', attempts_with(attempts, attempt))
      end
      if tonumber(answer[7]) <= now then
        -- Its lease has expired, and nobody has ended it: it gets the lease of a new call.
        call_extend(call_sid, known[1], tonumber(ARG.lease_ms),
          tonumber(ARG.record_key_ms) - CONST.RECORD_GRACE_MS)
        answer[7] = EXPIRY
      end
      return answer
    end
  end

  local chain, first, last, unreadable, missing = ARGV, ARG_AT.chain, CHAIN_END, 0, ''
  if merchant ~= '' then
    -- include chain_of_merchant
    chain, first, last, unreadable, missing = chain_of_merchant(merchant, CHAIN_END)
  end
  local answer
  for i = first, last, 2 do
    local pod, info, max, label, available = pod_pick(chain[i], chain[i + 1])
    if pod then
      if max > 0 then
        -- As call_share() in lib/calls.lua. It comes first, so that the call is counted whatever
        -- goes wrong after it.
        rc('ZINCRBY', available, '1', pod)
        rc('ZADD', P .. 'pod:calls:' .. pod, EXPIRY, call_sid)
        redis.pcall('SADD', P .. 'pod:' .. pod .. ':calls', call_sid)
      end
      rc('HSET', call_key, 'pod_name', pod, 'source_pool', label, 'merchant_id', merchant,
        'allocated_at', time[1], 'provider', provider, 'attempts', attempt)
      rc('PEXPIRE', call_key, ARG.record_key_ms)
      rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', ARG.lease_key_ms)
      rc('HSET', P .. 'pod:' .. pod, 'status', 'allocated', 'allocated_call_sid', call_sid,
        'allocated_at', time[1], 'source_pool', label)
      rc('ZADD', KEYS[1], EXPIRY, call_sid)
      answer = {CONST.CALL_PLACED, pod, label, time[1], EXPIRY, info, unreadable}
      break
    end
  end

  if not answer then
    -- include refusal
    answer = refusal(call_sid, merchant, provider, chain, first, last, unreadable, missing)
  end
  for i = 1, lost and CONST.ENDED_TEXTS or 0 do
    answer[#answer + 1] = lost[i]
  end
  return answer
end
