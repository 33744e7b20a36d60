-- include base
-- include past_cut
-- A call has left its pod: it has ended, or goes on elsewhere. For its story it is added to
-- {prefix}calls:ended, as two texts. The first is its call_sid. The second has nine lines: how it
-- left (`why`); when, two lines, as TIME says it; pod, pool, merchant, provider, allocated_at, and
-- the field `renewed` of its record. `record` is as call_record() in lib/calls.lua reads it. A
-- release does not use this: see src/store/redis/past.c.
--
-- The list is cut when it is too long by PAST_SLACK calls, so that this is seldom one command more.
-- An error does not matter: the call has ended all the same.
local function past_add(call_sid, why, record)
  local renewed = rc('HGET', P .. 'call:' .. call_sid, 'renewed') or ''
  local text = table.concat({why, time[1], time[2], record[1] or '', record[2] or '',
    record[3] or '', record[4] or '', record[5] or '', renewed}, '\n')
  local length = redis.pcall('RPUSH', KEY.CALLS_ENDED, call_sid, text)
  if type(length) == 'number' and length > (CONST.PAST_CALLS_MAX + CONST.PAST_SLACK) * 2 then
    past_cut(-2 * CONST.PAST_CALLS_MAX)
  end
end
