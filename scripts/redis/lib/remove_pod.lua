-- include pods
-- include calls
-- include break_calls
-- A pod does not exist any more: its calls go on elsewhere or end, and it is removed. `ended` gets
-- the texts of the calls that ended. Returns false if it has more calls than one script should
-- look at: then it gets no new ones, and the script must be sent again.
local function pod_remove(pod, info, ended)
  local _, is_more = calls_break(pod, info, pod_calls(pod), ended, CONST.END_POD_GONE)
  if is_more then
    info.terminating = true
    pod_put(pod, info)
    pod_place(pod, info)
    return false
  end
  pod_leave(pod, info)
  return true
end
