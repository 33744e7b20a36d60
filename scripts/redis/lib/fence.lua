-- include base
-- For scripts that only a leader runs. Their argument `fence` is the number that the leader got
-- with the lock (leader.lua) or after it wrote the Lease (claim_fence.lua); '' without an election.
-- A leader that was paused, and was replaced meanwhile, must not continue: nothing is done.
if ARG.fence ~= '' and rc('GET', KEY.LEADER_FENCE) ~= ARG.fence then
  return redis.error_reply(CONST.FENCED_REPLY)
end
