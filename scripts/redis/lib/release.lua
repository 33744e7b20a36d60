-- include base
-- include pods
-- include calls
-- Ends a call that has this record and gives its pod back. Returns the answer of release_call.lua.
-- `renewed` and `granted` are these fields of the record; `at` the time, as two lines.
local function call_release(call_sid, record, renewed, at, granted)
  local pod = record[1]
  local text = rc('HGET', KEY.PODS, pod)
  local info = pod_get(pod)
  local answer = {CONST.RELEASE_DONE, pod, record[2] or '', record[3] or '', record[4] or '',
    record[5] or '0', text or '', '', info and pod_is_draining(pod, info) and 1 or 0,
    renewed or '', at}
  call_drop(call_sid, pod, info and info.tier or nil)
  -- A draining pod goes back to no pool.
  if info and not pod_settle(pod, info) and answer[9] == 0 then
    answer[8] = info.tier
  end
  return granted_add(answer, granted)
end
