-- include pods
-- include calls
-- Ends a call that has this record and gives its pod back. What release.lua answers for it.
local function call_finish(call_sid, record)
  local pod = record[1]
  local text = rc('HGET', P .. 'pods', pod)
  local info = pod_get(pod)
  local answer = {1, pod, record[2] or '', record[3] or '', record[4] or '', record[5] or '0', text or '', '',
    info and pod_is_draining(pod, info) and 1 or 0}
  call_drop(call_sid, pod, info and info.tier or nil)
  if info and not pod_settle(pod, info) then
    answer[8] = info.tier
  end
  return answer
end
