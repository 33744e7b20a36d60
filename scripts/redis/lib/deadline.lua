-- The last argument of every script that changes something: the time, by this server's clock, until which the router
-- waits for the answer. Later than that its client has been told that nobody knows what came of it, and may have acted on
-- that: so nothing happens any more. The error says what time it is here, in case the router's idea of it is wrong.
if now > tonumber(table.remove(ARGV)) then
  return redis.error_reply(string.format('LATE %.0f: the answer was awaited until earlier; nothing was changed', now))
end
