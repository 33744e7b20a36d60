-- include base
-- include line_call
-- include tiers
-- include line_marks
-- include tombstone
-- include claims
-- @leaves passed_over, passes_left
-- The line: calls that wait for a pod. docs/REDIS.md describes its keys. {prefix}line decides
-- whether a call waits; an entry of another key of the line that it does not have is left over
-- from an edit by hand, and is removed where it is met. A place is a time: places with equal times
-- are in the order of their names, as Redis has them anyway. The rules are those of
-- src/core/line.c.
--
-- A waiting call is a table: merchant, provider (false: not known), since, until_ms, heard,
-- priority, place, awaits (the first word of its stream has not come), holder or '', attempt ('0':
-- not known), pools (the tiers of its chain, with spaces between them). If it was rescued:
-- allocated_at, in seconds, renewed ('1', or '' if nobody had renewed it), and unsettled (when it
-- lost its pod: for a while a release that names none does not end it; or ''); else these are
-- false. And claim: of the newest stream; 0: none; resumes and resumes_from, as in the record of a
-- call, or false. The record of a granted call stays until the call is taken, with its place: see
-- lib/wait_again.lua.

local function line_key(tier)
  return P .. 'line:' .. pool_label(tier)
end

-- By tier: how many calls at the front of its line are overdue, as far as this script has looked.
-- An allocation looks at the line of each tier, and a script may have many.
local passed_over, passes_left = {}, CONST.WAIT_PASSED_MAX

local function line_enter(call_sid, pools, place)
  local is_first = true
  for tier in string.gmatch(pools, '%S+') do
    if line_call('ZADD', line_key(tier), place, call_sid) == 1 then
      passed_over[tier] = nil
    end
    if is_first then
      line_call('SADD', P .. 'line:first:' .. pool_label(tier), call_sid)
      is_first = false
    end
  end
end

local function line_exit(call_sid, pools)
  local is_first = true
  for tier in string.gmatch(pools, '%S+') do
    line_call('ZREM', line_key(tier), call_sid)
    passed_over[tier] = nil
    if is_first then
      line_call('SREM', P .. 'line:first:' .. pool_label(tier), call_sid)
      is_first = false
    end
  end
end

-- The record of a waiting call; nil if it was deleted or damaged by hand.
local function waiting_read(call_sid)
  local f = line_call('HMGET', P .. 'waiting:' .. call_sid, 'since', 'until', 'heard', 'priority',
    'merchant_id', 'provider', 'awaits', 'holder', 'attempt', 'allocated_at', 'renewed', 'pools',
    'unsettled', 'claim', 'resumes', 'resumes_from')
  for i = 1, 4 do
    f[i] = tonumber(f[i] or nil)
    if not (f[i] and f[i] >= 0 and f[i] < 1e15) then
      return nil
    end
  end
  return {since = f[1], until_ms = f[2], heard = f[3], priority = f[4], merchant = f[5] or '',
    provider = f[6], awaits = f[7] == CONST.YES, holder = f[8] or '', attempt = f[9] or '0',
    allocated_at = f[10], renewed = f[11], pools = f[12] or '',
    unsettled = f[13], claim = claim_read(f[14]), resumes = f[15], resumes_from = f[16]}
end

-- The call leaves all lines. Neither is its holder told nor its end recorded. `granted_place`: its
-- record stays, and has this place; nil: it does not.
local function line_leave(call_sid, w, granted_place)
  line_call('ZREM', P .. 'line', call_sid)
  line_call('ZREM', P .. 'line:due', call_sid)
  line_exit(call_sid, w.pools)
  if w.merchant ~= '' then
    line_call('SREM', P .. 'line:of:' .. w.merchant, call_sid)
  end
  if granted_place then
    line_call('HSET', P .. 'waiting:' .. call_sid, 'place', string.format('%.0f', granted_place))
  else
    rc('DEL', P .. 'waiting:' .. call_sid)
  end
end

-- The same for a call whose record cannot be read: it may be in the line of any tier.
local function line_forget(call_sid)
  for tier in string.gmatch(TIERS, '\n(%S+) %d+') do
    line_exit(call_sid, tier)
  end
  line_leave(call_sid, {pools = '', merchant = ''})
end

-- The waiting call of that name, or nil.
local function waiting_get(call_sid)
  local place = HAS_LINE and tonumber(line_call('ZSCORE', P .. 'line', call_sid) or nil)
  if not place then
    return nil
  end
  local w = place > -1e15 and place < 1e15 and waiting_read(call_sid)
  if not w then
    line_forget(call_sid)
    return nil
  end
  w.place = place
  return w
end

-- Has a router that does not know the line given a pod to the call? Then it waits no more.
local function waiting_has_pod(call_sid, w)
  local key = P .. 'call:' .. call_sid
  local pod = redis.pcall('HGET', key, 'pod_name')
  if type(pod) == 'table' then
    rc('DEL', key) -- made by hand
  elseif pod then
    line_leave(call_sid, w)
    return true
  end
  return false
end

-- For how long it has waited.
local function waited_ms(w)
  return string.format('%.0f', math.max(0, now - w.since))
end

-- Its holder is silent from then on.
local function waiting_silent(w)
  return w.heard + (w.awaits and CONST.WAIT_FIRST_MS or CONST.WAIT_SILENT_MS)
end

-- It is overdue from then on.
local function waiting_due(w)
  return math.min(w.until_ms, waiting_silent(w))
end

-- Has a newer stream than the one with this claim the call?
local function waiting_is_elsewhere(w, claim)
  return w.claim > claim and now < waiting_silent(w)
end

-- Its holder was heard now; `w.holder`, `w.attempt`, `w.awaits` and `w.claim` are set already.
local function waiting_heard(call_sid, w)
  if waiting_due(w) <= now then
    passed_over = {}
  end
  w.heard = now
  rc('HSET', P .. 'waiting:' .. call_sid, 'heard', string.format('%.0f', now), 'holder', w.holder,
    'attempt', w.attempt, 'awaits', w.awaits and CONST.YES or '', 'claim',
    string.format('%.0f', w.claim))
  line_call('ZADD', P .. 'line:due', string.format('%.0f', waiting_due(w)), call_sid)
end

-- Its chain was resolved anew. It enters their lines in any case: their keys may be lost.
local function waiting_set_pools(call_sid, w, pools)
  if pools ~= w.pools then
    line_exit(call_sid, w.pools)
    rc('HSET', P .. 'waiting:' .. call_sid, 'pools', pools)
    w.pools = pools
  end
  line_enter(call_sid, pools, string.format('%.0f', w.place))
  if w.merchant ~= '' then
    line_call('SADD', P .. 'line:of:' .. w.merchant, call_sid)
  end
end

-- Room in one of its pools is for the call, if nobody stands before it.
local function waiting_mark(w)
  for tier in string.gmatch(w.pools, '%S+') do
    marked[tier] = true
  end
end

-- The call joins the line. The key of its record outlives its wait by a day, as records of calls
-- do.
local function line_join(call_sid, w)
  local key, place = P .. 'waiting:' .. call_sid, string.format('%.0f', w.place)
  rc('DEL', key)
  rc('HSET', key, 'since', string.format('%.0f', w.since), 'until',
    string.format('%.0f', w.until_ms), 'heard', string.format('%.0f', w.heard), 'priority',
    string.format('%.0f', w.priority), 'merchant_id', w.merchant, 'awaits',
    w.awaits and CONST.YES or '', 'holder', w.holder, 'attempt', w.attempt, 'pools', w.pools,
    'claim', string.format('%.0f', w.claim))
  if w.provider then
    rc('HSET', key, 'provider', w.provider)
  end
  if w.allocated_at then
    rc('HSET', key, 'allocated_at', w.allocated_at, 'renewed', w.renewed, 'unsettled', w.unsettled)
  end
  if w.resumes then
    rc('HSET', key, 'resumes', w.resumes, 'resumes_from', w.resumes_from)
  end
  rc('PEXPIRE', key,
    string.format('%.0f', math.max(0, w.until_ms - now) + CONST.RECORD_GRACE_MS))
  line_call('ZADD', P .. 'line', place, call_sid)
  line_call('ZADD', P .. 'line:due', string.format('%.0f', waiting_due(w)), call_sid)
  line_enter(call_sid, w.pools, place)
  if w.merchant ~= '' then
    line_call('SADD', P .. 'line:of:' .. w.merchant, call_sid)
  end
  HAS_LINE, marked = true, marked or {}
end

-- The holder of the call learns that something has happened to it.
local function holder_notify(call_sid, holder)
  carriers_notify(CONST.NOTE_CHANGED .. call_sid, holder)
end

-- Its wait has ended, or the call with it: it leaves the line, its holder is told, and its end is
-- recorded.
local function waiting_finish(call_sid, w, why)
  line_leave(call_sid, w)
  tombstone_add(call_sid, why, '')
  holder_notify(call_sid, w.holder)
end
