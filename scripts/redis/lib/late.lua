-- ARGV[5] of a sweep: the time, in an answer that the router had right before it asked. What it asks can lie around
-- while Redis is stopped, and with it every heartbeat that says otherwise; the router has given it up by then.
if now - tonumber(ARGV[5]) > 3000 then
  return redis.error_reply('LATE this was asked too long ago; nothing was changed')
end
-- Nobody could be heard until a moment ago: see src/store/redis/hearing.c.
local IS_FORGIVING = rc('EXISTS', P .. 'forgiving') == 1
