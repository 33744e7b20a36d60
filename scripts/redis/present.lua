-- A router is alive, or leaves. ARGV: 4 the router, 5 '1' if it leaves and carries nothing any more, else '0'.
-- Answers {how many other routers are alive}.
-- include base
-- include deadline
local ALIVE_MS = 30000 -- CARRIER_TTL_MS in src/core/command.h
local router, routers = ARGV[4], P .. 'routers'
if ARGV[5] == '1' then
  rc('DEL', P .. 'carrier:' .. router)
  rc('ZREM', routers, router)
  return {0}
end
rc('SET', P .. 'carrier:' .. router, '1', 'PX', ALIVE_MS)
rc('ZADD', routers, string.format('%.0f', now), router)
-- Those that died without a word: they are kept a little longer than they count, for people who look.
rc('ZREMRANGEBYSCORE', routers, '-inf', string.format('(%.0f', now - 2 * ALIVE_MS))
return {rc('ZCOUNT', routers, string.format('(%.0f', now - ALIVE_MS), '+inf') - 1}
