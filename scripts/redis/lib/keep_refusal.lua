-- include base
-- The last refusal of each call, for every router: {prefix}refused:{call_sid} has the answer of
-- lib/refusal.lua as JSON. {prefix}refused has the calls with the times, so that their number is
-- limited, whatever asks. An error does not matter: the call is refused all the same.

-- Forgets those that are too old, and the oldest ones if there are too many. Once for each script,
-- after its first refusal: it refuses 32 calls at most, so 31 more can be there for a moment.
local function refusals_trim()
  local index = P .. 'refused'
  redis.pcall('ZREMRANGEBYSCORE', index, '-inf',
    string.format('%.0f', now - CONST.REFUSAL_KEEP_MS))
  redis.pcall('PEXPIRE', index, TEXT.REFUSAL_KEEP_MS)
  local count = redis.pcall('ZCARD', index)
  if type(count) ~= 'number' or count <= CONST.REFUSALS_KEPT then
    return
  end
  local oldest = rc('ZPOPMIN', index, count - CONST.REFUSALS_KEPT)
  for i = 1, #oldest, 2 do
    rc('DEL', P .. 'refused:' .. oldest[i])
  end
end

-- The text also says whose call it was, at its end; and how many pods of each pool were free, if
-- any could be.
local function refusal_keep(call_sid, merchant, provider, answer, free)
  local n = #answer
  answer[n + 1] = merchant
  answer[n + 2] = provider
  for i, number in ipairs(free or {}) do
    answer[n + 2 + i] = number
  end
  redis.pcall('SET', P .. 'refused:' .. call_sid, cjson.encode(answer), 'PX', TEXT.REFUSAL_KEY_MS)
  for i = #answer, n + 1, -1 do
    answer[i] = nil
  end
  redis.pcall('ZADD', P .. 'refused', string.format('%.0f', now), call_sid)
end
