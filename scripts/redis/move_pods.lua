-- Moves idle pods to other tiers. Answers 1 or 0 for each: a pod that is not idle any more, or
-- pinned, stays.
--
-- @arg fence: see lib/fence.lua
-- @each pod: its name
-- @each tier: its new tier; '': the tier of a new pod
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include pods
local answer = {}
local is_ours = not other_leads()
for i = EACH.FIRST, #ARGV, EACH.SIZE do
  local pod, tier = ARGV[i], ARGV[i + 1]
  local info = pod_record(pod)
  local moved = 0
  if is_ours and info and pod_load(pod) == 0 and info.ready and info.held_until <= now and
    not pod_is_draining(pod, info) and (tier == '' or not info.pinned) then
    pod_move(pod, info, tier ~= '' and tier or tier_for_new_pod())
    moved = 1
  end
  answer[#answer + 1] = moved
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
