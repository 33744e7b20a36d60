-- include tiers
-- One call more (1) or less (-1) on a pod. If it is shared and in its list, its score says how many it carries, also calls
-- of the first implementation that we do not know of: so it is never set from what we know, only counted up and down.
-- Returns the score, nil if there is none.
local function pod_count(pod, tier, by)
  if not tier or (tier_max(tier) or 0) == 0 then
    return nil
  end
  local key = available_key(tier)
  local score = redis.pcall('ZADD', key, 'XX', 'INCR', by, pod) -- an error: the list is of another type by now
  score = type(score) == 'string' and tonumber(score) or nil
  if score and score < 0 then
    rc('ZADD', key, 0, pod)
    score = 0
  end
  return score
end
