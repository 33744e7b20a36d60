-- include base
-- The last argument of every script that changes something is a deadline: the time, by this
-- server's clock, until which the router waits for the answer. After it the client has been told
-- that the result is unknown, and may have acted on that. So nothing is changed any more. The error
-- has this server's time, in case that the router knows it wrongly.
if now > tonumber(table.remove(ARGV)) then
  return redis.error_reply(string.format(CONST.LATE_REPLY, now))
end
