-- A page of the calls that wait, in the order of their places.
--
-- @arg place: the place of the last call of the page before; '': from the start
-- @arg after: the name of that call
-- @arg limit: how many calls
--
-- Answers {the time, number of all calls that wait; for each call: call_sid, place, WAITING_TEXTS}.
-- include base
-- include line_marks
HAS_LINE = rc('EXISTS', P .. 'line') == 1
-- include waiting_texts
local answer = {string.format('%.0f', now), HAS_LINE and line_call('ZCARD', P .. 'line') or 0}
local at = 0
if ARG.place ~= '' then
  -- That call may have left the line. Calls with the same place are in the order of their names.
  at = line_call('ZCOUNT', P .. 'line', '-inf', '(' .. ARG.place)
  for _, call_sid in
    ipairs(line_call('ZRANGEBYSCORE', P .. 'line', ARG.place, ARG.place, 'LIMIT', 0, 1000)) do
    at = at + (call_sid <= ARG.after and 1 or 0)
  end
end
for _, call_sid in ipairs(line_call('ZRANGE', P .. 'line', at, at + ARG.limit - 1)) do
  local w = waiting_get(call_sid)
  if w then
    answer[#answer + 1] = call_sid
    answer[#answer + 1] = string.format('%.0f', w.place)
    waiting_texts(answer, call_sid, w)
  end
end
return answer
