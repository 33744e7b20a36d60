-- ARGV[2]: a line for each configured tier, in the order in which new pods fill them, as
-- "\nNAME MAX TARGET\n..."; MAX is 0 for exclusive tiers and merchant pools. ARGV[3]: the default tier.
local TIERS = ARGV[2]

-- The calls that a pod of this tier may carry if it is shared, 0 if it is exclusive, nil if it is not configured.
local function tier_max(tier)
  local _, last = string.find(TIERS, '\n' .. tier .. ' ', 1, true)
  return last and tonumber(string.match(TIERS, '^%d+', last + 1))
end

local function pool_label(tier)
  return string.sub(tier, 1, 9) == 'merchant:' and tier or 'pool:' .. tier
end

local function available_key(tier)
  return string.sub(tier, 1, 9) == 'merchant:' and P .. tier .. ':pods' or P .. 'pool:' .. tier .. ':available'
end

local function assigned_key(tier)
  return P .. pool_label(tier) .. ':assigned'
end

-- Where a pod goes that belongs nowhere.
local function tier_for_new_pod()
  for tier, target in string.gmatch(TIERS, '\n(%S+) %d+ (%d+)') do
    if rc('SCARD', assigned_key(tier)) < tonumber(target) then
      return tier
    end
  end
  return ARGV[3]
end
