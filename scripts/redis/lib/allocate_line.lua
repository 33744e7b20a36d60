-- include base
-- include chain_of_merchant
-- include line_serve
-- include refuse_now
-- include resumes
-- include tombstone
-- include wait_rules
-- include waiting_texts
-- @uses CHAIN_END
-- The part of an allocation that has to do with the line: see lib/allocate_call.lua. `wish` is the
-- answer of options_read(), or nil. The rules are those of src/core/allocate.c.

-- The tiers of a chain, with spaces between them.
local function chain_text(chain, first, last)
  local tiers = {}
  for i = first, last, 2 do
    tiers[#tiers + 1] = chain[i]
  end
  return table.concat(tiers, ' ')
end

-- The chain of a waiting call, as of now. If this script was sent for calls without merchants
-- alone, it is the one that the call had when it was last heard. Returns as chain_of_merchant().
local function chain_of_waiting(w)
  if w.merchant == '' or ARG.merchants ~= '' then
    return chain_of_merchant(w.merchant, CHAIN_END)
  end
  local chain = {}
  for tier in string.gmatch(w.pools, '%S+') do
    local max = tier_max(tier)
    chain[#chain + 1] = max and tier
    chain[#chain + 1] = max and string.format('%d', max)
  end
  return chain, 1, #chain, 0, ''
end

-- The call waits, and gets no pod by this request.
local function refuse_waiting(call_sid, w)
  local chain, first, last, unreadable, missing = chain_of_waiting(w)
  return refuse_now(call_sid, w.merchant, w.provider or '', chain, first, last, unreadable,
    missing)
end

-- The answer for a call that waits, or that is resumed and has ended; nil if it is neither, or has
-- got a pod by asking.
local function line_ask(call_sid, provider, attempt, wish, is_webhook)
  local w = waiting_get(call_sid)
  if not w then
    local why = wish and wish.is_resume and rc('GET', P .. 'ended:' .. call_sid)
    return why and {CONST.CALL_HAS_ENDED, why} or nil
  end
  if is_webhook and w.provider and w.provider ~= provider then
    return {CONST.CALL_FORBIDDEN}
  end
  if not (wish and wish.waits) then
    return refuse_waiting(call_sid, w)
  end
  local count, from
  if wish.is_resume then
    count, from = resume_counted(w.resumes, w.resumes_from)
  end
  -- A stream that is held and breaks at once would come back again and again.
  if w.until_ms <= now or (wish.is_resume and not count) then
    local answer = refuse_waiting(call_sid, w)
    answer[1] = CONST.CALL_TIMED_OUT
    answer[#answer + 1] = waited_ms(w)
    waiting_finish(call_sid, w, CONST.TOMBSTONE_TIMED_OUT)
    return answer
  end
  if wish.holder ~= '' and wish.holder ~= w.holder then
    holder_notify(call_sid, w.holder) -- a request that is kept open there is outdated
  end
  w.holder, w.attempt, w.awaits = wish.holder, attempt, wish.awaits
  waiting_heard(call_sid, w)
  if count then
    rc('HSET', P .. 'waiting:' .. call_sid, 'resumes', count, 'resumes_from', from)
  end
  local chain, first, last, unreadable = chain_of_waiting(w)
  waiting_set_pools(call_sid, w, chain_text(chain, first, last))
  waiting_mark(w)
  line_serve()
  if not line_call('ZSCORE', P .. 'line', call_sid) then
    return nil
  end
  local answer = {CONST.CALL_WAITING, 0, unreadable}
  waiting_texts(answer, call_sid, w)
  return answer
end

-- How many calls of the merchant wait. Entries that are left over from an edit by hand are removed
-- if they matter.
local function waiting_of(merchant, max)
  local key = P .. 'line:of:' .. merchant
  local count = line_call('SCARD', key)
  for _, call_sid in ipairs(count >= max and line_call('SRANDMEMBER', key, 100) or {}) do
    if not line_call('ZSCORE', P .. 'line', call_sid) then
      count = count - line_call('SREM', key, call_sid)
    end
  end
  return count
end

-- No pod is free: the call joins the line. Returns nil if it may not wait; then also whether it
-- might if the line were not full.
local function line_wait(call_sid, merchant, provider, attempt, wish, chain, first, last,
  unreadable, config)
  local max_wait, priority, max_waiting = wait_rules(config, wish.max_wait)
  -- A call whose wait has timed out does not wait again: who asks on and on would wait for ever.
  if max_wait == 0 or rc('GET', P .. 'ended:' .. call_sid) == CONST.TOMBSTONE_TIMED_OUT then
    return nil, false
  end
  if (HAS_LINE and line_call('ZCARD', P .. 'line') or 0) >= wish.max_calls or
    (max_waiting and waiting_of(merchant, max_waiting) >= max_waiting) then
    return nil, true
  end
  local w = {since = now, until_ms = now + max_wait, heard = now, priority = priority,
    place = now - priority * wish.ageing, merchant = merchant, provider = provider,
    awaits = wish.awaits, holder = wish.holder, attempt = attempt, allocated_at = false,
    renewed = false, pools = chain_text(chain, first, last), claim = 0,
    resumes = wish.is_resume and '1', resumes_from = string.format('%.0f', now)}
  line_join(call_sid, w)
  local answer = {CONST.CALL_WAITING, 1, unreadable}
  waiting_texts(answer, call_sid, w)
  return answer
end

-- The pod that the call had before, if it is available and in a pool of the chain. Returns as
-- pod_pick().
local function pod_pick_named(pod, chain, first, last)
  local info = rc('HGET', KEY.PODS, pod)
  local tier = info and string.match(info, '"' .. CONST.POD_TIER .. '":"([^"]+)"')
  for i = first, tier and last or 0, 2 do
    local available = available_key(tier)
    if chain[i] == tier and (not HAS_LINE or line_serve_tier(tier)) and
      rc('EXISTS', P .. 'pod:draining:' .. pod) == 0 then
      local max = tonumber(chain[i + 1])
      local score = max > 0 and tonumber(rc('ZSCORE', available, pod) or nil)
      if max == 0 and rc('EXISTS', P .. 'lease:' .. pod) == 0 and
        rc('SREM', available, pod) == 1 or (score and score < max) then
        return pod, info, max, pool_label(tier), available
      end
    end
  end
end
