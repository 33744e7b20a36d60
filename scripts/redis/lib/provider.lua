-- A webhook may act only on calls of its own provider. Is the call with this record another one's?
-- The first implementation does not record the provider: every provider may act on its calls.
local function call_has_other_provider(record, provider)
  return record[4] and record[4] ~= provider
end
