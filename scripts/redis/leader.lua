-- The lock of the leader. ARGV: 4 who asks, 5 for how long in ms, 6 'take', 'wait' or 'give'.
--
-- 'take' gives {who leads now, the fence}: the lock is taken if it is free, and kept if it is one's own. The fence
-- grows with every change of hands, so that a leader who slept through one can be told from the one who leads (see
-- lib/fence.lua). It starts from the time, so that a wiped store does not give old numbers again.
-- 'wait' is the same, but does not take a lock that vanished together with its fence: then the store was wiped, and
-- whoever led so far knows best what was in it; unless another program led, which has no fence. 'give' lets it go if it is
-- one's own, so that the next one need not wait. 'see' tells of a leader by a Lease of Kubernetes, ARGV[4], that is not the
-- router that asks.
--
-- Whoever leads and is one of ours says so in {prefix}leader:ours, and {prefix}leader:known keeps its name. Where the first is
-- not there, a leader of another name is another program, such as the first implementation, and {prefix}leader:other tells all
-- scripts (lib/other.lua). A leader of ours that cannot reach Redis for a while is none.
-- include base
-- include deadline
local key, fence_key = ARGV[1] .. 'leader', ARGV[1] .. 'leader:fence'
local function see(leader)
  if redis.call('EXISTS', P .. 'leader:ours') == 0 and redis.pcall('GET', P .. 'leader:known') ~= leader then
    redis.call('SET', P .. 'leader:other', leader, 'PX', ARGV[5])
  end
end
if ARGV[6] == 'see' then
  see(ARGV[4])
  return {ARGV[4], '0'}
end
local holder, fence = redis.call('GET', key), redis.call('GET', fence_key)
-- One that was made by hand is no number to compare.
fence = fence and string.find(fence, '^[1-9]%d*$') and #fence < 16 and fence
if ARGV[6] == 'give' then
  if holder == ARGV[4] then
    redis.call('DEL', key, P .. 'leader:ours')
  end
  return {'', '0'}
end
if not holder and not fence and ARGV[6] == 'wait' and redis.call('EXISTS', P .. 'leader:other') == 0 then
  return {'', '0'}
end
if holder and holder ~= ARGV[4] then
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ARGV[5]) -- made by hand: without an end nobody would ever lead
  end
  see(holder)
  return {holder, fence or '0'}
end
redis.call('SET', key, ARGV[4], 'PX', ARGV[5])
redis.call('SET', P .. 'leader:ours', ARGV[4], 'PX', ARGV[5])
redis.call('SET', P .. 'leader:known', ARGV[4])
redis.call('DEL', P .. 'leader:other')
if not fence then
  fence = redis.call('TIME')[1]
  redis.call('SET', fence_key, fence)
elseif not holder then
  fence = string.format('%.0f', redis.call('INCR', fence_key)) -- tostring() rounds what has 15 digits
end
return {ARGV[4], fence}
