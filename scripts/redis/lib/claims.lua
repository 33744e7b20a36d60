-- include base
-- The claims of the streams that are held for a call: the newest stream has the highest one. A
-- claim is a time, so that it is higher than those before also if Redis has lost them. The rules
-- are those of src/core/line.c and src/core/carrier.c.

-- The field `claim` of a record; 0 if there is none.
local function claim_read(text)
  local claim = tonumber(text or nil)
  return claim and claim >= 0 and claim < 1e15 and claim or 0
end

-- The claim of a stream that begins now, after the one with this claim.
local function claim_next(claim)
  return math.max(now, claim + 1)
end
