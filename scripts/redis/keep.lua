-- The holder of waiting calls is alive: keeps them, and brings those back that the store has lost.
--
-- @arg holder: the router
-- @arg ageing_ms: HOLD_AGEING
-- @arg max_wait: HOLD_MAX_WAIT
-- @arg merchants: as for allocate
-- @arg chain_count: as for allocate
-- @list chain: as for allocate
-- @each call_sid: the call
-- @each merchant: its merchant_id, or ''
-- @each provider: its provider, or ''
-- @each since: since when it waits, in ms; '0': not known
-- @each until_ms: then its wait is over; '0': not known
-- @each claim: of its stream: see lib/claims.lua
-- @each is_first: YES: the first word of a stream, which has the call from now on
-- @each attempt: a request asks, with this number; '0': a stream
--
-- Answers, for each call: KEEP_WAITING, KEEP_REJOINED, KEEP_TIMED_OUT or KEEP_WAS_TIMED_OUT, and
-- the WAITING_TEXTS, without position and estimate; KEEP_GRANTED and the claim; or KEEP_ENDED,
-- KEEP_UNKNOWN or KEEP_ELSEWHERE.
-- include base
-- include deadline
-- include current_tiers
-- include calls
-- include chain_of_merchant
-- include line
-- include wait_rules
-- include waiting_texts
local CHAIN_END = ARG_AT.chain_count + ARG.chain_count
local answer = {}
local chains = {} -- by merchant: what chain_and_rules returns

-- The tiers with spaces between them, the priority, and for how long its calls may wait.
local function chain_and_rules(merchant)
  local known = chains[merchant]
  if not known then
    local chain, first, last, _, _, config = chain_of_merchant(merchant, CHAIN_END)
    local max_wait, priority = wait_rules(config, ARG.max_wait)
    local tiers = {}
    for i = first, last, 2 do
      tiers[#tiers + 1] = chain[i]
    end
    known = {table.concat(tiers, ' '), priority, max_wait}
    chains[merchant] = known
  end
  return unpack(known)
end

-- The store has lost the call, or knows only its end.
local function keep_lost(call_sid, merchant, provider, since, until_ms, claim, is_first, attempt)
  local why = redis.pcall('GET', P .. 'ended:' .. call_sid)
  why = type(why) == 'string' and why -- else it was made by hand, which must not stop the others
  if why and why ~= CONST.TOMBSTONE_TIMED_OUT then
    return CONST.KEEP_ENDED
  elseif not why and since == 0 then
    return CONST.KEEP_UNKNOWN
  end
  local w = {since = since, until_ms = until_ms, heard = 0, priority = 0, merchant = merchant,
    provider = provider, awaits = false, holder = ARG.holder, attempt = attempt,
    allocated_at = false, renewed = false, pools = '', claim = 0}
  if why or (until_ms > 0 and until_ms <= now) then
    if why then
      return CONST.KEEP_WAS_TIMED_OUT, w
    end
    tombstone_add(call_sid, CONST.TOMBSTONE_TIMED_OUT, '')
    return CONST.KEEP_TIMED_OUT, w
  end
  local max_wait
  w.pools, w.priority, max_wait = chain_and_rules(merchant)
  if until_ms == 0 then
    w.since = math.min(since, now)
    w.until_ms = now + (max_wait > 0 and max_wait or CONST.WAIT_LOST_MS)
  end
  w.claim = is_first and claim_next(0) or claim
  w.heard, w.place = now, w.since - w.priority * ARG.ageing_ms
  line_join(call_sid, w)
  waiting_mark(w)
  return CONST.KEEP_REJOINED, w
end

-- The call has a pod. `known`: the fields `pod_name`, `claim` and `granted` of its record.
local function keep_granted(call_sid, known, claim, is_first, attempt)
  local newest = claim_read(known[2])
  if is_first then
    local key = P .. 'call:' .. call_sid
    newest = claim_next(newest)
    rc('HSET', key, 'claim', string.format('%.0f', newest))
    local since, holder = string.match(known[3] or '', '^(%d+) (%S*)$')
    if since then
      rc('HSET', key, 'granted', since .. ' ' .. ARG.holder)
      if line_call('EXISTS', P .. 'waiting:' .. call_sid) == 1 then
        line_call('HSET', P .. 'waiting:' .. call_sid, 'holder', ARG.holder, 'claim',
          string.format('%.0f', newest))
      end
      if holder ~= ARG.holder then
        holder_notify(call_sid, holder)
      end
    end
  elseif attempt == '0' and newest > claim then
    return CONST.KEEP_ELSEWHERE
  end
  return CONST.KEEP_GRANTED, nil, string.format('%.0f', newest)
end

-- Is this the word of a stream or a request that another one has replaced?
local function is_outdated(w, claim, is_first, attempt)
  if attempt ~= '0' then
    return w.attempt ~= '0' and w.attempt ~= attempt
  end
  return not is_first and waiting_is_elsewhere(w, claim)
end

-- Returns the answer, and the waiting call or the claim if that follows.
local function keep(call_sid, merchant, provider, since, until_ms, claim, is_first, attempt)
  local known = redis.pcall('HMGET', P .. 'call:' .. call_sid, 'pod_name', 'claim', 'granted')
  if known[1] then
    return keep_granted(call_sid, known, claim, is_first, attempt)
  end
  local w = waiting_get(call_sid)
  if not w then
    return keep_lost(call_sid, merchant, provider, since, until_ms, claim, is_first, attempt)
  end
  if w.until_ms <= now then
    waiting_finish(call_sid, w, CONST.TOMBSTONE_TIMED_OUT)
    return CONST.KEEP_TIMED_OUT, w
  end
  if is_outdated(w, claim, is_first, attempt) then
    return CONST.KEEP_ELSEWHERE
  end
  if is_first and w.holder ~= ARG.holder then
    holder_notify(call_sid, w.holder)
  end
  if attempt == '0' then
    w.claim = (is_first or claim < w.claim) and claim_next(w.claim) or claim
  end
  w.holder, w.awaits = ARG.holder, false
  waiting_heard(call_sid, w)
  waiting_set_pools(call_sid, w, (chain_and_rules(w.merchant)))
  waiting_mark(w)
  return CONST.KEEP_WAITING, w
end

carrier_is_here(ARG.holder)
for i = CHAIN_END + 1, #ARGV, EACH.SIZE do
  local what, w, claim = keep(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]),
    tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), ARGV[i + 6] == CONST.YES, ARGV[i + 7])
  answer[#answer + 1] = what
  if w then
    waiting_texts_of(answer, w, 0, 0)
  else
    answer[#answer + 1] = claim
  end
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
