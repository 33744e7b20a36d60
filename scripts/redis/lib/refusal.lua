-- include base
-- include tiers
-- include held_out
-- include keep_refusal
-- @uses held_out_counts
-- Why there was no pod: for each pool of the chain its number of pods, and
-- how many are draining and suspended. The pods that are held out are counted by the first refusal
-- of a script, for all of them, and kept in `held_out_counts`. The answer is kept for later
-- queries. `free`: the free pods of each pool, if some may be free; nil: none is.
local function refusal(call_sid, merchant, provider, chain, first, last, unreadable, missing, free)
  local answer = {CONST.CALL_NO_POD, unreadable, missing, string.format('%.0f', now),
    (last - first + 1) / 2}
  local is_first = not held_out_counts
  if is_first then
    held_out_counts =
      {[CONST.POD_IS_DRAINING] = {}, [CONST.POD_IS_SUSPENDED] = {}, [CONST.POD_IS_BUSY] = {}}
    -- Enough for an operator. With more than a hundred pods held out the counts are not exact.
    held_out_pods(100, function(tier, state)
      held_out_counts[state][tier] = (held_out_counts[state][tier] or 0) + 1
    end)
  end
  for i = first, last, 2 do
    local tier = chain[i]
    local n = #answer
    answer[n + 1] = tier
    answer[n + 2] = rc('SCARD', assigned_key(tier))
    answer[n + 3] = held_out_counts[CONST.POD_IS_DRAINING][tier] or 0
    answer[n + 4] = held_out_counts[CONST.POD_IS_SUSPENDED][tier] or 0
  end
  refusal_keep(call_sid, merchant, provider, answer, free)
  if is_first then
    refusals_trim()
  end
  return answer
end
