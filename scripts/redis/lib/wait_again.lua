-- include base
-- include calls
-- include line
-- The pod of a granted call goes before its holder has taken it: it waits again, at the place that
-- it had, and counts as heard now. Its holder is told. Returns false if nobody knows how it has
-- waited: then it is as it was. `record`: of call_record(). The rules are those of
-- call_waits_again() of src/core/line_serve.c.
local function call_waits_again(call_sid, record, pod, info)
  local place = tonumber(line_call('HGET', P .. 'waiting:' .. call_sid, 'place') or nil)
  local w = place and place > -1e15 and place < 1e15 and waiting_read(call_sid)
  if not w then
    return false
  end
  past_add(call_sid, CONST.PAST_MOVED, record)
  rc('HDEL', P .. 'call:' .. call_sid, 'granted')
  granted_forget(call_sid)
  call_drop(call_sid, pod, info.tier)
  w.place, w.heard = place, now
  w.renewed, w.unsettled = w.renewed or '', w.unsettled or ''
  line_join(call_sid, w)
  waiting_mark(w)
  holder_notify(call_sid, w.holder)
  return true
end
