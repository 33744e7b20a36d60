-- The requests that have asked for a call, so that one that was answered with an error can be taken back without
-- hurting another that was answered with the pod: numbers with spaces between them in the record's field `attempts`;
-- '*' if not all of them are known. A call of the first implementation has no such field, and never gets one: that is how
-- it is told from ours. The rules are those of src/core/attempts.c.
local ATTEMPTS_MAX = 8 -- as in src/core/command.h

local function attempts_with(attempts, attempt)
  if attempts == '*' then
    return '*'
  elseif attempts == '' then
    return attempt
  elseif string.find(' ' .. attempts .. ' ', ' ' .. attempt .. ' ', 1, true) then
    return attempts
  end
  local _, spaces = string.gsub(attempts, ' ', ' ')
  return spaces + 1 < ATTEMPTS_MAX and attempts .. ' ' .. attempt or '*'
end

-- What is left of them; nil if this one is not there.
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
