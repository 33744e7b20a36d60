-- Gives calls their pods: to each the one it has, or the first that is free along its chain.
--
-- ARGV: 4 lease in ms, 5 and 6 how long the keys of a lease and of a record live in ms, 7 what a merchant's
-- configuration is resolved with (JSON), 8 number of texts of the default chain, 9… these, as pairs of tier and MAX;
-- then five texts for each call: call_sid, merchant_id, provider, the attempt (see lib/attempts.lua), '1' if a webhook of
-- that provider asks.
--
-- Answers, for each call, an error or
-- {0 new, pod, pool, allocated_at, expiry, pod's record, unreadable},
-- {1 existing, pod, pool, merchant, provider, allocated_at, expiry, pod's record, 0} or
-- {3} if a webhook asks for a call that is not its provider's, or
-- {2, unreadable, missing pool or '', server's time, number of steps; for each step: tier, pods, draining, suspended}.
-- Behind each, five texts if a former call of that name was found to have ended.
--
-- The one script that must be cheap: it is written out rather than built from the library, and runs nine commands for
-- a call that is answered by the first pool of its chain, and two for all of them. Numbers that Redis gets are texts,
-- because it formats each number that a script gives it as a floating-point one, which takes half as long as a command.
-- include base
-- include deadline
-- include fresh
-- include each
local CHAIN_END = 8 + ARGV[8]
local EXPIRY = string.format('%.0f', now + ARGV[4])
local out_counts -- what the pods held out are doing: looked at by the first refusal, for all of them

local function allocate(call_sid, merchant, provider, attempt, is_webhook)
  local call_key = P .. 'call:' .. call_sid
  local lost
  if rc('HGET', call_key, 'pod_name') then
    -- include existing
    -- include attempts
    local known, answer = call_record(call_sid)
    answer, lost = existing(known)
    if answer and is_webhook == '1' and call_is_of_others(known, provider) then
      return {3}
    end
    if answer then
      local attempts = rc('HGET', call_key, 'attempts')
      if attempts then
        rc('HSET', call_key, 'attempts', attempts_with(attempts, attempt))
      end
      if tonumber(answer[7]) <= now then
        -- Its lease has run out, and nobody has ended it: it gets the lease of a fresh call.
        call_extend(call_sid, known[1], tonumber(ARGV[4]), tonumber(ARGV[6]) - RECORD_GRACE)
        answer[7] = EXPIRY
      end
      return answer
    end
  end

  -- include route

  local answer
  for i = first, last, 2 do
    -- include pick
    if pod then
      if max > 0 then
        -- As call_share() in lib/calls.lua. First, so that the call is counted whatever goes wrong after that.
        rc('ZINCRBY', available, '1', pod)
        rc('ZADD', P .. 'pod:calls:' .. pod, EXPIRY, call_sid)
        redis.pcall('SADD', P .. 'pod:' .. pod .. ':calls', call_sid)
      end
      rc('HSET', call_key, 'pod_name', pod, 'source_pool', label, 'merchant_id', merchant, 'allocated_at', time[1],
        'provider', provider, 'attempts', attempt)
      rc('PEXPIRE', call_key, ARGV[6])
      rc('SET', P .. 'lease:' .. pod, call_sid, 'PX', ARGV[5])
      rc('HSET', P .. 'pod:' .. pod, 'status', 'allocated', 'allocated_call_sid', call_sid, 'allocated_at', time[1],
        'source_pool', label)
      rc('ZADD', KEYS[1], EXPIRY, call_sid)
      answer = {0, pod, label, time[1], EXPIRY, info, unreadable}
      break
    end
  end

  if not answer then
    -- include refusal
    answer = refusal(chain, first, last, unreadable, missing)
  end
  for i = 1, lost and 5 or 0 do
    answer[#answer + 1] = lost[i]
  end
  return answer
end

return each(CHAIN_END + 1, 5, allocate)
