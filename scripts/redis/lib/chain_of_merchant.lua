-- include base
-- The chain of a call of this merchant: pairs of tier and MAX in chain[first…last]. `default_end`
-- is the place of the last text of the default chain among the arguments. Returns chain, first,
-- last; then 1 if the merchant's configuration cannot be read, else 0; the id of its pool if that
-- pool does not exist, else ''; the configuration, if it has one that can be read.
local function chain_of_merchant(merchant, default_end)
  local text = rc('HGET', KEY.MERCHANT_CONFIG, merchant)
  if not text then
    return ARGV, ARG_AT.chain, default_end, 0, ''
  end
  -- include merchant_chain
  local own, unreadable, missing, config = merchant_chain(text)
  if own then
    return own, 1, #own, unreadable, missing, config
  end
  return ARGV, ARG_AT.chain, default_end, unreadable, missing
end
