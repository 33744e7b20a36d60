-- include base
-- include pick
-- allocate(): gives a pod to a call: the pod that it has, or the first free pod along its chain.
-- Returns the answer for that call: see release_and_allocate.lua.
--
-- This must be cheap. So it makes the call itself, instead of call_new() of lib/calls.lua: nine
-- commands for a call that gets a pod from the first pool of its chain. With call_new(), and the
-- part of the library that it needs, an allocation takes 1.3 times the instructions (callgrind,
-- Redis 7.0). Numbers for Redis are texts, because Redis formats each number as a floating-point
-- number, which takes half as long as a command. While nobody waits, and for a call that does not
-- ask to wait, the line costs nothing.
-- @uses CHAIN_END, EXPIRY, line

-- The answer for a call that has a record. If its pod is gone, or it has lost its slot: nil, and
-- the texts of the ended call.
-- `is_counted`: that it resumes was counted already.
local function allocate_existing(call_sid, provider, attempt, options, wish, is_counted)
  -- include existing_call
  -- include provider
  -- include attempts
  local call_key = P .. 'call:' .. call_sid
  local known = call_record(call_sid)
  local answer, lost = call_existing(call_sid, known)
  if not answer then
    return nil, lost
  end
  if string.sub(options, 1, 1) == CONST.YES and call_has_other_provider(known, provider) then
    return {CONST.CALL_FORBIDDEN}
  end
  if wish and wish.is_resume and not is_counted then
    -- include resumes
    local count, from = resume_counted(unpack(rc('HMGET', call_key, 'resumes', 'resumes_from')))
    if not count then
      return {CONST.CALL_RESUMED_TOO_OFTEN}
    end
    rc('HSET', call_key, 'resumes', count, 'resumes_from', from)
  end
  if wish and wish.is_resume and wish.is_unsettled then
    rc('HSET', call_key, 'unsettled', string.format('%.0f', now))
  end
  local attempts = rc('HGET', call_key, 'attempts')
  if known[7] and attempts and attempts ~= '*' and string.sub(options, 1, 1) ~= CONST.YES and
    not rc('HGET', call_key, 'claim') then
    attempts = '' -- the requests before it were told that the call waits
  end
  if attempts then
    rc('HSET', call_key, 'attempts', attempts_with(attempts, attempt))
  end
  if known[7] then
    answer[1] = CONST.CALL_TAKEN
    answer[10] = granted_wait(known[7])
    call_take(call_sid)
  end
  if known[7] or tonumber(answer[7]) <= now then
    -- It was granted; or its lease has expired, and nobody has ended it: it gets the lease of a new
    -- call.
    call_extend(call_sid, known[1], tonumber(ARG.lease_ms),
      tonumber(ARG.record_key_ms) - CONST.RECORD_GRACE_MS)
    answer[7] = EXPIRY
  end
  return answer
end

local function allocate(call_sid, merchant, provider, attempt, options)
  local call_key = P .. 'call:' .. call_sid
  local lost, wish, answer
  if #options > 1 then
    -- include options
    wish = options_read(options)
  end
  if rc('HGET', call_key, 'pod_name') then
    answer, lost = allocate_existing(call_sid, provider, attempt, options, wish)
    if answer then
      return answer
    end
  end
  if (HAS_LINE or wish) and not line then
    -- include allocate_line
    line = {ask = line_ask, wait = line_wait, serve = line_serve_tier, pick = pod_pick_named}
  end
  if HAS_LINE or wish then
    answer = line.ask(call_sid, provider, attempt, wish, string.sub(options, 1, 1) == CONST.YES)
    if not answer and HAS_LINE and rc('HGET', call_key, 'pod_name') then
      answer = allocate_existing(call_sid, provider, attempt, options, wish, true)
    end
    if answer then
      for i = 1, lost and CONST.ENDED_TEXTS or 0 do
        answer[#answer + 1] = lost[i]
      end
      return answer
    end
  end

  local chain, first, last, unreadable, missing = ARGV, ARG_AT.chain, CHAIN_END, 0, ''
  local config
  if merchant ~= '' then
    -- include chain_of_merchant
    chain, first, last, unreadable, missing, config = chain_of_merchant(merchant, CHAIN_END)
  end
  local pod, info, max, label, available
  if wish and wish.is_resume and wish.pod ~= '' then
    pod, info, max, label, available = line.pick(wish.pod, chain, first, last)
  end
  local i = first
  while not pod and i <= last do
    if not HAS_LINE or line.serve(chain[i]) then
      pod, info, max, label, available = pod_pick(chain[i], chain[i + 1])
    end
    i = i + 2
  end
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
    if wish and wish.is_resume then
      rc('HSET', call_key, 'resumes', '1', 'resumes_from', string.format('%.0f', now))
    end
    if wish and wish.is_resume and wish.is_unsettled then
      rc('HSET', call_key, 'unsettled', string.format('%.0f', now))
    end
    answer = {CONST.CALL_PLACED, pod, label, time[1], EXPIRY, info, unreadable}
  end

  local is_full = false
  if not answer and wish and wish.waits then
    answer, is_full = line.wait(call_sid, merchant, provider, attempt, wish, chain, first, last,
      unreadable, config)
  end
  if not answer and IS_SETTLING and not lost and not is_full then
    return redis.error_reply(CONST.SETTLING_REPLY)
  end
  if not answer then
    -- include refusal
    answer = refusal(call_sid, merchant, provider, chain, first, last, unreadable, missing)
    answer[1] = is_full and CONST.CALL_FULL or CONST.CALL_NO_POD
  end
  for k = 1, lost and CONST.ENDED_TEXTS or 0 do
    answer[#answer + 1] = lost[k]
  end
  return answer
end
