-- The number of a leader whom a Lease of Kubernetes has elected. ARGV: 4 the number that it has, '': none yet; 5 who it is,
-- 6 how long its lease lasts in ms.
--
-- A router calls this right after it has written the Lease, and at no other time. So a number that is not its own belongs to
-- a router that the Lease no longer names, and a new one is taken: the steps of that router are refused from now on (see
-- lib/fence.lua). The number is the time in ms, or one more than the stored one. So it grows, and it is new also where the
-- store was wiped, or has lost its last seconds in a failover.
-- include base
-- include deadline
local key = P .. 'leader:fence'
rc('SET', P .. 'leader:ours', ARGV[5], 'PX', ARGV[6]) -- see leader.lua
rc('SET', P .. 'leader:known', ARGV[5])
rc('DEL', P .. 'leader:other')
local stored = redis.pcall('GET', key)
-- One that was made by hand is no number to compare.
stored = type(stored) == 'string' and string.find(stored, '^[1-9]%d*$') and #stored < 16 and stored
if stored and stored == ARGV[4] then
  return stored
end
local fence = string.format('%.0f', math.max(now, (stored or 0) + 1))
rc('SET', key, fence)
return fence
