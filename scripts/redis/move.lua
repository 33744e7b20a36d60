-- Moves idle pods to other tiers. ARGV: 4 the fence, 5… pairs of pod and tier ('' for: wherever a new pod
-- would go).
-- Answers 1 or 0 for each: a pod that is no longer idle, or pinned, stays where it is.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include pods
local answer = {}
local is_ours = not other_leads()
for i = 5, #ARGV, 2 do
  local pod, tier = ARGV[i], ARGV[i + 1]
  local info = pod_record(pod)
  local moved = 0
  if is_ours and info and pod_load(pod) == 0 and info.ready and info.held_until <= now and not pod_is_draining(pod, info) and
    (tier == '' or not info.pinned) then
    pod_move(pod, info, tier ~= '' and tier or tier_for_new_pod())
    moved = 1
  end
  answer[#answer + 1] = moved
end
return answer
