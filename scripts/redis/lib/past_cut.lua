-- include base
-- Cuts {prefix}calls:ended at its beginning: see lib/past.lua. A user of Redis that may not cut it
-- forgets all of it: only stories depend on it, and it must not grow.
local function past_cut(first)
  if redis.pcall('LTRIM', KEY.CALLS_ENDED, first, '-1').err then
    redis.pcall('DEL', KEY.CALLS_ENDED)
  end
end
