-- A router is alive, or leaves. Answers {number of other live routers}.
--
-- @arg router: its name
-- @arg is_leaving: YES if it leaves and carries nothing any more
-- @arg version: of its program
-- include base
-- include deadline
local router, routers = ARG.router, P .. 'routers'
if ARG.is_leaving == CONST.YES then
  rc('DEL', P .. 'carrier:' .. router)
  rc('ZREM', routers, router)
  return {0}
end
rc('SET', P .. 'carrier:' .. router, ARG.version, 'PX', CONST.CARRIER_TTL_MS)
rc('ZADD', routers, string.format('%.0f', now), router)
rc('SADD', P .. 'carried', router) -- see departed.lua
-- Routers that died are kept a little longer than they count, for operators.
rc('ZREMRANGEBYSCORE', routers, '-inf', string.format('(%.0f', now - 2 * CONST.CARRIER_TTL_MS))
return {rc('ZCOUNT', routers, string.format('(%.0f', now - CONST.CARRIER_TTL_MS), '+inf') - 1}
