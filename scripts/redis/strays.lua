-- Removes pods from the lists of a tier that is not theirs, a bounded number at a time. Such pods
-- are left behind when keys were deleted by hand, one after the other: a pod that has lost its
-- record and its tier gets a new tier, and is counted twice.
--
-- @arg fence: see lib/fence.lua
-- @arg tier: whose lists
-- @arg cursor: of SSCAN
-- @arg limit: how many pods to look at
--
-- Answers {next cursor, number of removed pods, the time}.
-- include base
-- include deadline
-- include fence
-- include current_tiers
-- include pods
local assigned = assigned_key(ARG.tier)

-- A pod of the first implementation has a tier, and no record before import.lua has seen it.
local function belongs(pod)
  local info = pod_record(pod)
  if info then
    return info.tier == ARG.tier
  end
  return rc('EXISTS', P .. 'pod:tier:' .. pod) == 1 and not all_pods_are_ours()
end

local page = other_leads() and {'0', {}} or
  rc('SSCAN', assigned, ARG.cursor, 'COUNT', ARG.limit)
local removed = 0
for _, pod in ipairs(page[2]) do
  if not belongs(pod) then
    rc('SREM', assigned, pod)
    pod_unlist(pod, ARG.tier)
    removed = removed + 1
  end
end
return {page[1], removed, string.format('%.0f', now)}
