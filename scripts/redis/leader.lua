-- The lock of the leader.
--
-- @arg name: the router that asks; with LEADER_SEE the leader that the Lease names
-- @arg lock_ms: the life of the lock
-- @arg what: LEADER_TAKE, LEADER_WAIT, LEADER_GIVE or LEADER_SEE
--
-- LEADER_TAKE answers {the leader, the fence}. A free lock is taken, and the router's own is kept.
-- The fence grows with every new leader, so that a leader that was paused during a change can be
-- told from the present one (lib/fence.lua). It starts from the time, so that a wiped store does
-- not give old numbers again. LEADER_WAIT is the same, but does not take a lock that vanished
-- together with its fence: then the store was wiped, and the router that led until now knows best
-- what was in it. If another program led, which has no fence, the lock is taken. LEADER_GIVE
-- deletes the router's own lock, so that the next leader need not wait. LEADER_SEE reports a leader
-- by a Lease of Kubernetes that is not the router that asks.
--
-- A leader of ours keeps its name in {prefix}leader:ours and in {prefix}leader:known. If the first
-- key does not exist, a leader with another name is another program, such as the first
-- implementation, and {prefix}leader:other tells this to all scripts (lib/other_leader.lua). A
-- leader of ours that cannot reach Redis for a while does not count.
-- include base
-- include deadline
local key, fence_key = KEY.LEADER, KEY.LEADER_FENCE
local function see(leader)
  if rc('EXISTS', P .. 'leader:ours') == 0 and
    redis.pcall('GET', P .. 'leader:known') ~= leader then
    rc('SET', P .. 'leader:other', leader, 'PX', ARG.lock_ms)
  end
end
if ARG.what == CONST.LEADER_SEE then
  see(ARG.name)
  return {ARG.name, '0'}
end
local holder, fence = rc('GET', key), rc('GET', fence_key)
-- A number that was made by hand cannot be compared.
fence = fence and string.find(fence, '^[1-9]%d*$') and #fence < 16 and fence
if ARG.what == CONST.LEADER_GIVE then
  if holder == ARG.name then
    rc('DEL', key, P .. 'leader:ours')
  end
  return {'', '0'}
end
if not holder and not fence and ARG.what == CONST.LEADER_WAIT and
  rc('EXISTS', P .. 'leader:other') == 0 then
  return {'', '0'}
end
if holder and holder ~= ARG.name then
  if rc('PTTL', key) == -1 then
    rc('PEXPIRE', key, ARG.lock_ms) -- made by hand: without an expiry nobody would ever lead
  end
  see(holder)
  return {holder, fence or '0'}
end
rc('SET', key, ARG.name, 'PX', ARG.lock_ms)
rc('SET', P .. 'leader:ours', ARG.name, 'PX', ARG.lock_ms)
rc('SET', P .. 'leader:known', ARG.name)
rc('DEL', P .. 'leader:other')
if not fence then
  fence = time[1]
  rc('SET', fence_key, fence)
elseif not holder then
  fence = string.format('%.0f', rc('INCR', fence_key)) -- tostring() rounds a number of 15 digits
end
return {ARG.name, fence}
