-- include base
-- include line_call
-- include calls
-- include pick
-- include line
-- include line_grants
-- include line_forgiving
-- Serves the lines of tiers: gives their pods to the calls that wait for them, in the order of
-- their places. A call that is overdue is passed over: it may be heard again, or its wait is ended
-- by serve.lua. The rules are those of src/core/line_serve.c.
--
-- One script makes WAIT_GRANTS_MAX grants at most, and passes over so many calls that a script
-- stays short. If there is more to do, the router sends serve.lua at once: see line_more().

-- The call gets the pod, and has a moment to take it. The pod has left its list, or counts one call
-- more from now on, as for an allocation.
local function line_grant(call_sid, w, pod, max, label)
  local key, is_rescued, before = P .. 'call:' .. call_sid, w.allocated_at, {}
  for tier, count in pairs(passed_over) do
    before[tier] = count
  end
  line_leave(call_sid, w, w.place)
  passed_over = before -- it was not one of them
  call_new(call_sid, pod, label, max, CONST.WAIT_TAKE_MS, 0)
  rc('HSET', key, 'merchant_id', w.merchant, 'attempts', w.attempt ~= '0' and w.attempt or '*',
    'granted', string.format('%.0f %s', w.since, w.holder))
  if w.claim > 0 then
    rc('HSET', key, 'claim', string.format('%.0f', w.claim))
  end
  if w.resumes then
    rc('HSET', key, 'resumes', w.resumes, 'resumes_from', w.resumes_from)
  end
  if w.provider then
    rc('HSET', key, 'provider', w.provider)
  else
    rc('HDEL', key, 'provider') -- see lib/provider.lua
  end
  if is_rescued then
    rc('HSET', key, 'allocated_at', w.allocated_at, 'placed_at', time[1])
    if (w.unsettled or '') ~= '' then
      rc('HSET', key, 'unsettled', string.format('%.0f', now))
    end
    if w.renewed ~= '' then
      rc('HSET', key, 'renewed', w.renewed)
    end
  end
  line_call('ZADD', P .. 'line:granted', string.format('%.0f', now + CONST.WAIT_TAKE_MS), call_sid)
  holder_notify(call_sid, w.holder)
end

-- The first call in the line of the tier that is not overdue, from the place `at` on; nil if there
-- is none, or it is too far behind. Also returns its place.
local function line_first(tier, at)
  local key = line_key(tier)
  at = math.max(at, passed_over[tier] or 0)
  while passes_left > 0 do
    passed_over[tier] = at
    local call_sid = line_call('ZRANGE', key, at, at)[1]
    if not call_sid then
      return nil
    end
    local due = tonumber(line_call('ZSCORE', P .. 'line:due', call_sid) or nil)
    if due and due <= now and not line_forgives() then
      at = at + 1
    else
      local w = waiting_get(call_sid)
      if w and not due then
        due = waiting_due(w)
        line_call('ZADD', P .. 'line:due', string.format('%.0f', due), call_sid)
      end
      if not w then
        line_call('ZREM', key, call_sid) -- left over from an edit by hand
      elseif not waiting_has_pod(call_sid, w) then
        if due > now or w.until_ms > now and line_forgives() then
          return call_sid, w, at
        end
        at = at + 1
      end
    end
    passes_left = passes_left - 1
  end
  -- Too many for one script: they stand in this line again when they are heard, so that the next
  -- script gets further.
  if at > 0 then
    line_call('ZREMRANGEBYRANK', key, 0, at - 1)
    passed_over[tier] = 0
  end
end

-- Serves the line of one tier. Returns whether the room that is left may be taken by a call that is
-- not in the line: nobody in it waits for the room.
local function line_serve_tier(tier)
  local max, at = tier_max(tier), 0
  local label, granted = pool_label(tier), 0
  local call_sid, w
  local is_free = false
  while max do
    call_sid, w, at = line_first(tier, at)
    if not call_sid then
      -- A line that this script had no more time to look at may have somebody in it.
      is_free = passes_left > 0 or line_call('ZCARD', line_key(tier)) == 0
      break
    end
    if grants_left == 0 then
      break
    end
    local pod = pod_pick(tier, string.format('%d', max))
    if not pod then
      break
    end
    line_grant(call_sid, w, pod, max, label)
    grants_left = grants_left - 1
    granted = granted + 1
  end
  if granted > 0 then
    grants_add(label, granted)
  end
  -- If there may be more, the tier stays marked.
  if not max or is_free or call_sid and grants_left > 0 then
    marked[tier] = nil
  end
  return is_free, granted
end

-- Serves the lines of the marked tiers, in the order of their names. Returns the number of grants.
-- `answer`, if there is one, gets LINE_MORE as its last element if there is more to do.
local function line_serve(answer)
  local tiers, granted = {}, 0
  for tier in pairs(marked) do
    tiers[#tiers + 1] = tier
  end
  table.sort(tiers)
  for _, tier in ipairs(tiers) do
    granted = granted + select(2, line_serve_tier(tier))
  end
  if answer and next(marked) then
    answer[#answer + 1] = {ok = CONST.LINE_MORE}
  end
  return granted
end
