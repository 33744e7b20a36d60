-- The routers that are alive, the ones that spoke last first.
--
-- @arg limit: how many at most
--
-- Answers {now; for each router: its name, its version ('1' of one that is too old to tell, '' if
-- it is silent), the ms since its last sign of life}. A router that died is told for a minute.
-- include base
local answer = {string.format('%.0f', now)}
local found = rc('ZREVRANGE', P .. 'routers', '0', ARG.limit, 'WITHSCORES')
for i = 1, #found, 2 do
  local silent = now - found[i + 1]
  local n = #answer
  answer[n + 1] = found[i]
  -- A key that somebody has damaged hides this version alone.
  local version = redis.pcall('GET', P .. 'carrier:' .. found[i])
  answer[n + 2] = type(version) == 'string' and version or ''
  answer[n + 3] = string.format('%.0f', silent > 0 and silent or 0)
end
return answer
