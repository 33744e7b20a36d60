-- The number of a leader that a Lease of Kubernetes has elected. Answers the number.
--
-- @arg fence: the number that the leader has; '': none yet
-- @arg leader: its name
-- @arg lease_ms: the duration of its Lease
--
-- A router calls this right after it has written the Lease, and at no other time. So a number that
-- is not its own belongs to a router that the Lease does not name any more, and a new number is
-- taken. From then on the steps of that router are refused (lib/fence.lua). The number is the time
-- in ms, or one more than the stored number. So it grows, and it is also new if the store was wiped
-- or has lost its last seconds in a failover.
-- include base
-- include deadline
local key = KEY.LEADER_FENCE
rc('SET', P .. 'leader:ours', ARG.leader, 'PX', ARG.lease_ms) -- see leader.lua
rc('SET', P .. 'leader:known', ARG.leader)
rc('DEL', P .. 'leader:other')
local stored = redis.pcall('GET', key)
-- A number that was made by hand cannot be compared.
stored = type(stored) == 'string' and string.find(stored, '^[1-9]%d*$') and #stored < 16 and stored
if stored and stored == ARG.fence then
  return stored
end
local fence = string.format('%.0f', math.max(now, (stored or 0) + 1))
rc('SET', key, fence)
return fence
