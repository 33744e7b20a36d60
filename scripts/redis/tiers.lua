-- The tier configuration.
--
-- @arg fence: see lib/fence.lua
-- @arg what: TIERS_SEED, TIERS_SET, TIERS_CHECK or TIERS_MEND
-- @optional text: the tiers
-- @optional version: the version that the stored tiers must have; '': any
-- @optional by: the name of the key that asked, or ''
-- @optional wanted: the number that the present version of the history must have, or ''
-- @optional trial: YES: nothing is written
-- @each removed: a tier that is not configured any more
--
-- TIERS_SEED stores the text if there is none, and answers {stored text, its version, 1 if there
-- was neither a text nor a pod before}. TIERS_SET stores the text, unless the stored tiers have
-- another version, and answers {the new version, its number in the history, the text before or ''},
-- or TIERS_CHANGED. A trial answers the same. TIERS_CHECK stores nothing. TIERS_SET and TIERS_CHECK
-- delete the available lists that have the wrong type now, and those of the removed tiers;
-- place.lua puts their pods back. TIERS_MEND is for a router that finds a list of the wrong type:
-- the pods in it, at most 2,000 of each list, are left to the next sweep. TIERS_CHECK and
-- TIERS_MEND answer the number of deleted lists.
-- include base
-- include deadline
-- include fence
-- include tiers
-- include tiers_version
-- include other_leader
-- include history
local key = KEY.TIER_CONFIG

-- The version of the tiers is the hash of their text. {prefix}tier:version has the present one.
-- Other scripts look for the key that also has it in its name (lib/tiers_version.lua). A text that
-- was written by hand gets its version when the next router reads it.
local function version_of(text)
  local version, known = redis.sha1hex(text), redis.pcall('GET', P .. 'tier:version')
  if known ~= version then
    if type(known) == 'string' then
      rc('DEL', P .. 'tier:version:' .. known)
    end
    rc('SET', P .. 'tier:version', version)
  end
  if rc('EXISTS', P .. 'tier:version:' .. version) == 0 then
    rc('SET', P .. 'tier:version:' .. version, '1')
  end
  return version
end

local answer
if ARG.what == CONST.TIERS_SEED then
  local was_empty = rc('EXISTS', key, KEY.PODS) == 0 and 1 or 0
  rc('SET', key, ARG.text, 'NX')
  local text = rc('GET', key)
  return {text, version_of(text), was_empty}
elseif ARG.what == CONST.TIERS_SET then
  local old = rc('GET', key)
  if old and ARG.version ~= '' and version_of(old) ~= ARG.version then
    -- The stored tiers may have tiers that this router does not name as removed.
    return redis.error_reply(CONST.STALE_REPLY)
  end
  local number = history_change(P .. 'history:tiers', old or '', ARG.text, ARG.by, ARG.wanted,
    ARG.trial == CONST.YES)
  if not number then
    return CONST.TIERS_CHANGED
  end
  if ARG.trial == CONST.YES then
    return {redis.sha1hex(ARG.text), number, old or ''}
  end
  rc('SET', key, ARG.text)
  answer = {version_of(ARG.text), number, old or ''}
elseif rc('EXISTS', TIERS_KEY) == 0 then
  return redis.error_reply(CONST.STALE_REPLY)
end
local forgotten = 0
if other_leads() then
  return answer or forgotten -- the lists belong to that program
end
if ARG.what == CONST.TIERS_MEND then
  local MEND_MAX = 2000
  for tier, max in string.gmatch(TIERS, '\n(%S+) (%d+)') do
    local kind = rc('TYPE', available_key(tier)).ok
    -- A router that did not know the tier's new type has made it. A key of any other type was made
    -- by hand, and stays.
    if kind == (max == '0' and 'zset' or 'set') then
      local pods = kind == 'set' and rc('SRANDMEMBER', available_key(tier), MEND_MAX) or
        rc('ZRANGE', available_key(tier), 0, MEND_MAX - 1)
      for _, pod in ipairs(pods) do
        rc('SADD', P .. 'pods:out', pod)
      end
      forgotten = forgotten + rc('DEL', available_key(tier))
    end
  end
  return forgotten
end
for tier, max in string.gmatch(TIERS, '\n(%S+) (%d+)') do
  local kind = rc('TYPE', available_key(tier)).ok
  if kind ~= 'none' and kind ~= (max == '0' and 'set' or 'zset') then
    forgotten = forgotten + rc('DEL', available_key(tier))
  end
end
for i = EACH.FIRST, #ARGV do
  forgotten = forgotten + rc('DEL', available_key(ARGV[i]))
end
return answer or forgotten
