-- include version
if rc('EXISTS', FRESH) == 0 then
  return redis.error_reply(STALE)
end
