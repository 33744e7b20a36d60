-- include pods
-- include calls
-- A pod does not exist any more: ends its calls, and removes it. `ended` gets the texts of the
-- calls.
local function pod_remove(pod, info, ended)
  for _, call_sid in ipairs(pod_calls(pod)) do
    call_end(ended, call_sid, call_record(call_sid), pod, info.tier, CONST.END_POD_GONE)
  end
  pod_leave(pod, info)
end
