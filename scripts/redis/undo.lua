-- Undoes allocations that were answered with an error although they may have been carried out.
--
-- @each call_sid: the call
-- @each attempt: the number of the request: see lib/attempts.lua
--
-- Answers, for each, an error, {RELEASE_NOT_FOUND} if there is no such attempt, {UNDO_IN_USE}, or
-- as release_and_allocate.lua for an ended call.
-- include base
-- include deadline
-- include current_tiers
-- include batch
-- include release
-- include attempts
local function undo(call_sid, attempt)
  local call_key = P .. 'call:' .. call_sid
  local record = call_record(call_sid)
  local more = rc('HMGET', call_key, 'attempts', 'renewed')
  local left = record[1] and attempts_without(more[1], attempt)
  if not left then
    return {CONST.RELEASE_NOT_FOUND}
  end
  if left ~= '' or more[2] then
    rc('HSET', call_key, 'attempts', left)
    return {CONST.UNDO_IN_USE}
  end
  past_add(call_sid, CONST.PAST_UNDONE, record)
  return call_release(call_sid, record, '', '')
end

return batch({}, EACH.FIRST, #ARGV, EACH.SIZE, undo)
