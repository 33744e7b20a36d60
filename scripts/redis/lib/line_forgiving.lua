-- include base
-- @leaves is_line_forgiven
-- Was Redis, or the leader, out of reach until a moment ago? Then holders of waiting calls could
-- not be heard, and nobody counts as silent for as long as a holder may be silent.
-- {prefix}forgiving has the time; routers of older versions wrote '1'.
local is_line_forgiven
local function line_forgives()
  if is_line_forgiven == nil then
    local since = redis.pcall('GET', P .. 'forgiving')
    since = type(since) == 'string' and tonumber(since)
    is_line_forgiven = since and (since == 1 or now < since + CONST.WAIT_FIRST_MS) or false
  end
  return is_line_forgiven
end
