-- include base
-- @leaves TIERS
-- The argument `tiers` has, behind the version, a line for each configured tier, in the order in
-- which new pods fill them: "\nNAME MAX TARGET\n...". MAX is 0 for exclusive tiers and merchant
-- pools. A line goes on with " BUFFER MIN MAX_PODS" if the tier is scaled: see lib/wanted.lua.
local TIERS = ARG.tiers

-- The calls that a pod of this tier may carry if the tier is shared; 0 if it is exclusive; nil if
-- it is not configured.
local function tier_max(tier)
  local _, last = string.find(TIERS, '\n' .. tier .. ' ', 1, true)
  return last and tonumber(string.match(TIERS, '^%d+', last + 1))
end

local function pool_label(tier)
  return string.sub(tier, 1, #CONST.MERCHANT_POOL_PREFIX) == CONST.MERCHANT_POOL_PREFIX and tier or
    CONST.POOL_LABEL_PREFIX .. tier
end

local function available_key(tier)
  return string.sub(tier, 1, #CONST.MERCHANT_POOL_PREFIX) == CONST.MERCHANT_POOL_PREFIX and
    P .. tier .. ':pods' or P .. CONST.POOL_LABEL_PREFIX .. tier .. ':available'
end

local function assigned_key(tier)
  return P .. pool_label(tier) .. ':assigned'
end

-- The tier of a pod that belongs to no other one.
local function tier_for_new_pod()
  for tier, max, target, scaling in string.gmatch(TIERS, '\n(%S+) (%d+) (%d+)([^\n]*)') do
    local wanted = tonumber(target)
    if scaling ~= '' then
      -- include wanted
      wanted = pods_wanted(tier, max, scaling)
    end
    if rc('SCARD', assigned_key(tier)) < wanted then
      return tier
    end
  end
  return ARG.default_tier
end
