-- include tiers_version
-- include line_marks
-- @leaves keys_found, settling
-- Does nothing if the router does not know the stored tiers. The same command says whether any call
-- waits, and whether the server has changed a moment ago: a key counts as often as it is named.
local settling = KEY.SETTLING
local keys_found = rc('EXISTS', TIERS_KEY, TIERS_KEY, P .. 'line', settling, settling, settling,
  settling)
if keys_found >= 4 then
  IS_SETTLING, keys_found = true, keys_found - 4
end
if keys_found < 2 then
  return redis.error_reply(CONST.STALE_REPLY)
end
if keys_found == 3 then
  HAS_LINE, marked = true, {}
end
