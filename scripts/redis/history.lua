-- The versions of a configuration.
--
-- @arg merchant: its id; '': the tiers
--
-- Answers {the present text, or '' if there is none; then each version, as lib/history.lua has it}.
-- include base
local text, versions
if ARG.merchant == '' then
  text, versions = rc('GET', KEY.TIER_CONFIG), P .. 'history:tiers'
else
  text = rc('HGET', KEY.MERCHANT_CONFIG, ARG.merchant)
  versions = P .. 'history:merchant:' .. ARG.merchant
end
local answer = rc('LRANGE', versions, 0, -1)
table.insert(answer, 1, text or '')
return answer
