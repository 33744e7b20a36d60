-- The chain of a call: pairs of tier and MAX in chain[first…last]. For a block that has `merchant` ('': none) and
-- CHAIN_END, the last of the texts of the default chain, which begin with ARGV[9]; ARGV[7] as chain.lua says.
local chain, first, last, unreadable, missing = ARGV, 9, CHAIN_END, 0, ''
if merchant ~= '' then
  local text = rc('HGET', P .. 'merchant:config', merchant)
  if text then
    -- include chain
    local own
    own, unreadable, missing = chain_resolve(text)
    if own then
      chain, first, last = own, 1, #own
    end
  end
end
