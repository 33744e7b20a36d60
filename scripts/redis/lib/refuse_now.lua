-- include base
-- include refusal
-- Why a call gets no pod now, although some may be free: pods that wait for the next word of a
-- call that was silent, or the one that the call is about to leave. As refusal(), but
-- CALL_NOT_NOW, and behind the steps the number of free pods of each of them.
local function refuse_now(call_sid, merchant, provider, chain, first, last, unreadable, missing)
  local free = {}
  for i = first, last, 2 do
    local available = available_key(chain[i])
    free[#free + 1] = tonumber(chain[i + 1]) == 0 and rc('SCARD', available) or
      rc('ZCOUNT', available, '-inf', '(' .. chain[i + 1])
  end
  local answer =
    refusal(call_sid, merchant, provider, chain, first, last, unreadable, missing, free)
  answer[1] = CONST.CALL_NOT_NOW
  for _, number in ipairs(free) do
    answer[#answer + 1] = number
  end
  return answer
end
