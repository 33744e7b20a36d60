-- include tiers_version
-- Does nothing if the router does not know the stored tiers.
if rc('EXISTS', TIERS_KEY) == 0 then
  return redis.error_reply(CONST.STALE_REPLY)
end
