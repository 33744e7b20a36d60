-- Serves all lines, and ends waits: those of calls whose holders are silent or whose time is over,
-- and those of granted calls that nobody has taken. The leader sends it every second; any router
-- may send it without a fence to go on with what another script has left (LINE_MORE).
--
-- @arg fence: see lib/fence.lua
-- @arg forgive_ms: as for begin_sweep
-- @arg limit: the largest number of waits to end; '0': none
--
-- Answers {1 if there are more to end else 0, number of grants, number of ended waits; for each of
-- these: call_sid, merchant, provider, WAIT_TIMED_OUT or WAIT_ABANDONED, ms of waiting}.
-- include base
-- include deadline
-- include fence
-- include current_tiers
if ARG.forgive_ms ~= '' then
  rc('SET', P .. 'forgiving', string.format('%.0f', now), 'PX', ARG.forgive_ms)
end
local answer, limit = {0, 0, 0}, tonumber(ARG.limit)
if rc('EXISTS', P .. 'line', P .. 'line:due', P .. 'line:granted') == 0 then
  return answer
end
-- include pods
-- include line_serve
HAS_LINE, marked = true, marked or {}

local function add_ended(call_sid, merchant, provider, how, waited)
  local n = #answer
  answer[3] = answer[3] + 1
  answer[n + 1] = call_sid
  answer[n + 2] = merchant
  answer[n + 3] = provider or ''
  answer[n + 4] = how
  answer[n + 5] = waited
end

-- The configured tiers that have a line. Most have none: fifty of them are asked for at once.
local function mark_all()
  local tiers, keys = {}, {}
  local function look()
    if #keys > 0 and rc('EXISTS', unpack(keys)) > 0 then
      for i, key in ipairs(keys) do
        marked[tiers[i]] = rc('EXISTS', key) == 1 or nil
      end
    end
    tiers, keys = {}, {}
  end
  for tier in string.gmatch(TIERS, '\n(%S+) %d+') do
    tiers[#tiers + 1] = tier
    keys[#keys + 1] = line_key(tier)
    if #keys == 50 then
      look()
    end
  end
  look()
end

local function end_overdue()
  local late = line_call('ZRANGEBYSCORE', P .. 'line:due', '-inf', string.format('%.0f', now),
    'LIMIT', 0, limit + 1)
  for i, call_sid in ipairs(late) do
    if i > limit then
      answer[1] = line_forgives() and 0 or 1
      break
    end
    local w = waiting_get(call_sid)
    if not w then
      -- Left over from an edit by hand.
      local left = waiting_read(call_sid)
      if left then
        line_leave(call_sid, left)
      else
        line_forget(call_sid)
      end
    elseif w.until_ms <= now and not waiting_has_pod(call_sid, w) then
      add_ended(call_sid, w.merchant, w.provider, CONST.WAIT_TIMED_OUT,
        waited_ms(w))
      waiting_finish(call_sid, w, CONST.TOMBSTONE_TIMED_OUT)
    elseif not line_forgives() and not waiting_has_pod(call_sid, w) then
      add_ended(call_sid, w.merchant, w.provider, CONST.WAIT_ABANDONED,
        waited_ms(w))
      line_leave(call_sid, w)
      holder_notify(call_sid, w.holder)
    end
  end
end

local function end_untaken()
  local left = limit - answer[3]
  local late = line_forgives() and {} or line_call('ZRANGEBYSCORE', P .. 'line:granted', '-inf',
    string.format('%.0f', now), 'LIMIT', 0, left + 1)
  for i, call_sid in ipairs(late) do
    if i > left then
      answer[1] = 1
      break
    end
    local record = call_record(call_sid)
    line_call('ZREM', P .. 'line:granted', call_sid)
    if record[1] and record[7] then
      local info = pod_get(record[1])
      add_ended(call_sid, record[3] or '', record[4], CONST.WAIT_ABANDONED,
        granted_wait(record[7]))
      past_add(call_sid, CONST.END_EXPIRED, record)
      call_drop(call_sid, record[1], info and info.tier or nil)
      if info then
        pod_settle(record[1], info)
      end
    end
  end
end

mark_all()
answer[2] = line_serve()
if limit > 0 then
  end_overdue()
  end_untaken()
  answer[2] = answer[2] + line_serve()
end
if next(marked) then
  answer[#answer + 1] = {ok = CONST.LINE_MORE}
end
return answer
