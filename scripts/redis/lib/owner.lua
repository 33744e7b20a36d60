-- A webhook speaks for the calls of its own provider only: is the one with this record none of them? The first
-- implementation does not record whose a call is: every provider may speak for those.
local function call_is_of_others(record, provider)
  return record[4] and record[4] ~= provider
end
