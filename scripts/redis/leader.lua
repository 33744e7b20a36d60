-- The lock of the leader. ARGV: 4 who asks, 5 for how long in ms, 6 'take', 'wait' or 'give'.
--
-- 'take' gives {who leads now, the fence}: the lock is taken if it is free, and kept if it is one's own. The fence
-- grows with every change of hands, so that a leader who slept through one can be told from the one who leads.
-- 'wait' is the same, but does not take a lock that vanished together with its fence: then the store was wiped, and
-- whoever led so far knows best what was in it. 'give' lets it go if it is one's own, so that the next one need not
-- wait.
local key, fence_key = ARGV[1] .. 'leader', ARGV[1] .. 'leader:fence'
local holder = redis.call('GET', key)
if ARGV[6] == 'give' then
  if holder == ARGV[4] then
    redis.call('DEL', key)
  end
  return {'', '0'}
end
if not holder and ARGV[6] == 'wait' and redis.call('EXISTS', fence_key) == 0 then
  return {'', '0'}
end
if not holder then
  redis.call('SET', key, ARGV[4], 'PX', ARGV[5])
  return {ARGV[4], tostring(redis.call('INCR', fence_key))}
end
if holder == ARGV[4] then
  redis.call('PEXPIRE', key, ARGV[5])
end
return {holder, redis.call('GET', fence_key) or '0'}
