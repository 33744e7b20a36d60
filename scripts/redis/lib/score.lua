-- include base
-- include tiers
-- Counts one call more (1) or less (-1) on a pod. If the pod is shared and in its list, its score
-- is its number of calls. Some of these may be calls of the first implementation that we do not
-- know. So the score is never set from our own data, only increased and decreased. Returns the
-- score, nil if there is none.
local function pod_count(pod, tier, by)
  if not tier or (tier_max(tier) or 0) == 0 then
    return nil
  end
  local key = available_key(tier)
  local score = redis.pcall('ZADD', key, 'XX', 'INCR', by, pod) -- error: the list has another type
  score = type(score) == 'string' and tonumber(score) or nil
  if score and score < 0 then
    rc('ZADD', key, 0, pod)
    score = 0
  end
  return score
end
