-- The requests that have asked for a call, so that one that was answered with an error can be
-- undone without harm to another one that was answered with the pod. The field `attempts` of the
-- record has their numbers with spaces between them; '*' if there were too many. A call of the
-- first implementation has no such field, and never gets one, which distinguishes it from our
-- calls. The rules are those of src/core/attempts.c.

local function attempts_with(attempts, attempt)
  if attempts == '*' then
    return '*'
  elseif attempts == '' then
    return attempt
  elseif string.find(' ' .. attempts .. ' ', ' ' .. attempt .. ' ', 1, true) then
    return attempts
  end
  local _, spaces = string.gsub(attempts, ' ', ' ')
  return spaces + 1 < CONST.ATTEMPTS_MAX and attempts .. ' ' .. attempt or '*'
end

-- The other ones; nil if this one is not among them.
local function attempts_without(attempts, attempt)
  local left, is_there = {}, false
  for one in string.gmatch(attempts or '', '[^ ]+') do
    if one == attempt then
      is_there = true
    else
      left[#left + 1] = one
    end
  end
  return is_there and table.concat(left, ' ') or nil
end
