-- Pods that do not exist any more, or that their source does not show any more.
--
-- @arg fence: see lib/fence.lua
-- @arg source: their source
-- @arg how: GONE_IS_GONE; GONE_IS_ABSENT: pods with calls drain, and keep the calls; GONE_WILL_BE:
--   they get no call from now on, and are about to be named again
-- @arg rescues: YES: calls that can go on elsewhere do; else what follows is empty
-- @arg lease_ms: the lease of a call that moves
-- @arg record_ms: the least life of a record
-- @arg max_wait_ms: HOLD_MAX_WAIT
-- @arg ageing_ms: HOLD_AGEING
-- @arg merchants: as for allocate
-- @arg chain_count: as for allocate
-- @list chain: as for allocate
-- @each pod: a name
--
-- Answers, for each pod: GONE_UNKNOWN, GONE_REMOVED, GONE_CONFLICT, GONE_STAYS, or GONE_MORE if it
-- has more calls; the number of calls that ended, and their ENDED_TEXTS. Stops after some dozen
-- calls. The pods that the answer leaves out, and one with GONE_MORE, must be named again.
-- include base
-- include deadline
-- include fence
-- include current_tiers
local CHAIN_END = ARG_AT.chain_count + ARG.chain_count
-- include pods
-- include remove_pod
local answer, infos = {}, {}

-- All of them leave their lists first: no call that one of them loses may go to another of them.
for i = CHAIN_END + 1, #ARGV do
  local info = pod_record(ARGV[i])
  infos[i] = info
  if rescue and info and info.source == ARG.source and ARG.how == CONST.GONE_IS_GONE then
    pod_close(ARGV[i], info)
  end
end
for i = CHAIN_END + 1, #ARGV do
  local pod, info, ended = ARGV[i], infos[i], {}
  local what = not info and CONST.GONE_UNKNOWN or
    info.source == ARG.source and CONST.GONE_REMOVED or CONST.GONE_CONFLICT
  if what == CONST.GONE_REMOVED and (ARG.how == CONST.GONE_WILL_BE or
    (ARG.how == CONST.GONE_IS_ABSENT and pod_load(pod) > 0)) then
    what = CONST.GONE_STAYS
    -- Where no call can be given to it anyway, there is nothing to do yet.
    if not info.terminating and (ARG.how == CONST.GONE_IS_ABSENT or rescue or HAS_LINE) then
      info.terminating = true
      pod_put(pod, info)
      pod_place(pod, info)
    end
  elseif what == CONST.GONE_REMOVED and not pod_remove(pod, info, ended) then
    what = CONST.GONE_MORE
  end
  local n = #answer
  answer[n + 1] = what
  answer[n + 2] = #ended / CONST.ENDED_TEXTS
  for k = 1, #ended do
    answer[n + 2 + k] = ended[k]
  end
  if #answer > CALLS_MAX * CONST.ENDED_TEXTS or what == CONST.GONE_MORE then
    break
  end
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
