-- The tier configuration. ARGV: 4 the fence, 5 what to do: 'seed' stores ARGV[6] if there is none, and gives what is stored
-- and its version; 'set' stores it, unless the version is no longer ARGV[7] ('': whatever it is), and gives its version;
-- 'check' only looks. Both forget the available lists that are of the wrong type now, and those of the tiers named in
-- ARGV[8…], which are no longer there; their pods are put back by place.lua. 'mend' is for whoever meets such a list: the
-- pods in it, at most 2,000 of each list, are left to the next sweep. 'check' and 'mend' answer how many lists that were.
-- include base
-- include deadline
-- include fence
-- include tiers
-- include version
-- include other
local key = P .. 'tier:config'

-- The version of the tiers is the hash of their text. {prefix}tier:version has the present one, and the key that also has it
-- in its name is what other scripts look for (lib/version.lua). A text that was written by hand gets its version when
-- the next router reads it.
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

local version
if ARGV[5] == 'seed' then
  rc('SET', key, ARGV[6], 'NX')
  local text = rc('GET', key)
  return {text, version_of(text)}
elseif ARGV[5] == 'set' then
  local text = ARGV[7] ~= '' and rc('GET', key)
  if text and version_of(text) ~= ARGV[7] then
    return redis.error_reply(STALE) -- what the router leaves out of ARGV[8…] may be in there
  end
  rc('SET', key, ARGV[6])
  version = version_of(ARGV[6])
elseif rc('EXISTS', FRESH) == 0 then
  return redis.error_reply(STALE)
end
local forgotten = 0
if other_leads() then
  return version or forgotten -- the lists are that program's
end
if ARGV[5] == 'mend' then
  local MEND_MAX = 2000
  for tier, max in string.gmatch(TIERS, '\n(%S+) (%d+)') do
    local kind = rc('TYPE', available_key(tier)).ok
    -- A router that had not heard of the tier's new type has made it. What somebody made by hand is not touched.
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
for i = 8, #ARGV do
  forgotten = forgotten + rc('DEL', available_key(ARGV[i]))
end
return version or forgotten
