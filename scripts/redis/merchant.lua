-- Sets or removes a merchant's configuration.
--
-- @arg merchant: its id
-- @arg max: the largest number of merchants
-- @arg by: the name of the key that asked, or ''
-- @arg wanted: the number that the present version must have, or ''
-- @arg trial: YES: nothing is written
-- @optional text: its configuration; without it the merchant is removed
--
-- Answers {MERCHANT_DONE, the present version, the text before or ''}, or {MERCHANT_UNKNOWN},
-- {MERCHANT_TOO_MANY} or {MERCHANT_CHANGED}.
-- include base
-- include deadline
-- include history
local key, removed = KEY.MERCHANT_CONFIG, P .. 'history:removed'
local versions = P .. 'history:merchant:' .. ARG.merchant
local stored, new = rc('HGET', key, ARG.merchant), ARG.text or ''
local old, is_trial = stored or '', ARG.trial == CONST.YES
if new == '' and not stored then
  return {CONST.MERCHANT_UNKNOWN}
end
if not stored and rc('HLEN', key) >= tonumber(ARG.max) then
  return {CONST.MERCHANT_TOO_MANY}
end
local version = history_change(versions, old, new, ARG.by, ARG.wanted, is_trial)
if not version then
  return {CONST.MERCHANT_CHANGED}
end
if is_trial then
  return {CONST.MERCHANT_DONE, version, old}
end
if new ~= '' then
  if old == '' then
    rc('LREM', removed, 0, ARG.merchant)
  end
  rc('HSET', key, ARG.merchant, new)
  return {CONST.MERCHANT_DONE, version, old}
end
rc('HDEL', key, ARG.merchant)
-- The versions of a removed merchant stay for a while, so that the removal can be taken back.
rc('LREM', removed, 0, ARG.merchant)
if rc('RPUSH', removed, ARG.merchant) > CONST.HISTORY_REMOVED_MAX then
  rc('DEL', P .. 'history:merchant:' .. rc('LPOP', removed))
end
return {CONST.MERCHANT_DONE, version, old}
