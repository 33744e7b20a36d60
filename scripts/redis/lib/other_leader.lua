-- include base
-- @leaves is_led_by_other, is_all_ours
-- Does another program lead, such as the first implementation
-- during a rollback? A router of ours that notices it keeps {prefix}leader:other alive
-- (leader.lua). Then that program is responsible for the pods: a pod that was taken from a pool and
-- is not used goes back, and our own records of pods may be outdated.
local is_led_by_other
local function other_leads()
  if is_led_by_other == nil then
    is_led_by_other = rc('EXISTS', P .. 'leader:other') == 1
  end
  return is_led_by_other
end

-- Does one of our routers lead, and has it taken over all pods that another program had registered
-- (import.lua)? Then a pod without a record belongs to nobody.
local is_all_ours
local function all_pods_are_ours()
  if is_all_ours == nil then
    local known = rc('MGET', P .. 'leader:ours', P .. 'leader:imported')
    is_all_ours = known[1] and known[1] == known[2]
  end
  return is_all_ours
end
