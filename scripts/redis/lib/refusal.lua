-- include tiers
-- include out
-- Why there was no pod: for each pool of the chain, how many pods it has and what they are doing.
local function refusal(chain, first, last, unreadable, missing)
  local answer = {2, unreadable, missing, string.format('%.0f', now), (last - first + 1) / 2}
  if not out_counts then
    out_counts = {d = {}, s = {}, b = {}}
    -- Enough to tell an operator what is going on; with more than a hundred pods held out it is not exact.
    out_pods(100, function(tier, state)
      out_counts[state][tier] = (out_counts[state][tier] or 0) + 1
    end)
  end
  for i = first, last, 2 do
    local tier = chain[i]
    local n = #answer
    answer[n + 1] = tier
    answer[n + 2] = rc('SCARD', assigned_key(tier))
    answer[n + 3] = out_counts.d[tier] or 0
    answer[n + 4] = out_counts.s[tier] or 0
  end
  return answer
end
