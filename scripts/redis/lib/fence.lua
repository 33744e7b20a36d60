-- ARGV[4] of what only a leader does: the number that it got with the lock (leader.lua) or after it wrote the Lease
-- (claim_fence.lua), '' where nobody has one. A leader that was stopped in the middle, and has been followed by another one
-- meanwhile, must not go on where it was: nothing is done.
if ARGV[4] ~= '' and rc('GET', P .. 'leader:fence') ~= ARGV[4] then
  return redis.error_reply('FENCED another router leads by now; nothing was changed')
end
