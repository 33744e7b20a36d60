-- Undoes allocations that were answered with an error although they may have been carried out.
--
-- @arg spares_place: YES: a call that waits keeps its place
-- @each call_sid: the call
-- @each attempt: the number of the request: see lib/attempts.lua
--
-- Answers, for each, an error, {RELEASE_NOT_FOUND} if there is no such attempt, {UNDO_IN_USE}, or
-- as release_and_allocate.lua for an ended call, or for one that waited.
-- include base
-- include deadline
-- include current_tiers
-- include batch
-- include release
-- include attempts
local function undo(call_sid, attempt)
  local call_key = P .. 'call:' .. call_sid
  local record = call_record(call_sid)
  if HAS_LINE and not record[1] and ARG.spares_place ~= CONST.YES then
    -- include line
    local w = waiting_get(call_sid)
    if w and w.attempt == attempt then
      line_leave(call_sid, w)
      holder_notify(call_sid, w.holder)
      return {CONST.RELEASE_WAITED, w.merchant, w.provider or '',
        waited_ms(w)}
    end
  end
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
  return call_release(call_sid, record, '', '', record[7])
end

local answer = batch({}, EACH.FIRST, #ARGV, EACH.SIZE, undo)
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
