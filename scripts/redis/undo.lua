-- Takes back allocations that were answered with an error although they may have been carried out.
--
-- ARGV: 4… two texts for each: call_sid, the attempt. Answers, for each, an error, {0} if there is no such attempt, {2} if
-- somebody else has asked for the call or has renewed it, or as release does.
-- include base
-- include deadline
-- include fresh
-- include each
-- include finish
-- include attempts
local function undo(call_sid, attempt)
  local call_key = P .. 'call:' .. call_sid
  local record = call_record(call_sid)
  local more = rc('HMGET', call_key, 'attempts', 'renewed')
  local left = record[1] and attempts_without(more[1], attempt)
  if not left then
    return {0}
  end
  if left ~= '' or more[2] then
    rc('HSET', call_key, 'attempts', left)
    return {2}
  end
  return call_finish(call_sid, record)
end

return each(4, 2, undo)
