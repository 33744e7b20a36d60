-- The tier configuration. ARGV: 4 the fence, 5 what to do: 'get' gives the stored text or false; 'seed' stores ARGV[6]
-- if there is none, and gives what is stored; 'set' stores it, and 'check' only looks: both forget the available
-- lists that are of the wrong type now and those of the tiers named in ARGV[7…], which are no longer there, and
-- answer how many lists that were; their pods are put back by place.lua. 'mend' is for whoever meets such a list in
-- between, and has just read ARGV[6]: the pods in it, at most 2,000 of each list, are left to the next sweep.
-- include base
-- include deadline
-- include fence
-- include tiers
local key = P .. 'tier:config'
if ARGV[5] == 'get' then
  return rc('GET', key)
elseif ARGV[5] == 'seed' then
  rc('SET', key, ARGV[6], 'NX')
  return rc('GET', key)
elseif ARGV[5] == 'set' then
  rc('SET', key, ARGV[6])
end
local forgotten = 0
if ARGV[5] == 'mend' then
  local MEND_MAX = 2000
  for tier, max in string.gmatch(TIERS, '\n(%S+) (%d+)') do
    local kind = rc('TYPE', available_key(tier)).ok
    -- A router that had not heard of the tier's new type has made it. What somebody made by hand is not touched.
    if rc('GET', key) == ARGV[6] and kind == (max == '0' and 'zset' or 'set') then
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
for i = 7, #ARGV do
  forgotten = forgotten + rc('DEL', available_key(ARGV[i]))
end
return forgotten
