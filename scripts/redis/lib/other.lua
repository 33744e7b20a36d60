-- Does another program lead, such as the first implementation during a rollback? A router of ours that sees one keeps
-- {prefix}leader:other alive (leader.lua). Then that program is in charge of the pods: what is taken from a pool and not used
-- goes back, and what our own records say of pods may be out of date.
local is_led_by_other
local function other_leads()
  if is_led_by_other == nil then
    is_led_by_other = rc('EXISTS', P .. 'leader:other') == 1
  end
  return is_led_by_other
end

-- Does one of our routers lead, and has it taken over whatever another program had registered (import.lua)? Then a pod
-- without a record is nobody's.
local is_all_ours
local function all_pods_are_ours()
  if is_all_ours == nil then
    local known = rc('MGET', P .. 'leader:ours', P .. 'leader:imported')
    is_all_ours = known[1] and known[1] == known[2]
  end
  return is_all_ours
end
