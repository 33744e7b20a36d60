-- Pods that no longer exist, or that their source does not show any more. ARGV: 4 the fence, 5 source, 6 'gone', or
-- 'absent': then those that carry calls drain, and keep them; 7… names.
-- Answers, for each: 0 unknown, 1 removed, 2 of another source, 3 absent and drained; number of calls ended, and those,
-- five texts each.
-- Stops after some dozen calls: the pods that the answer leaves out are to be named again.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include pods
-- include calls
local CALLS_MAX = 50
local answer = {}
local is_absent = ARGV[6] == 'absent'
for i = 7, #ARGV do
  local pod = ARGV[i]
  local info = pod_record(pod)
  local ended = {}
  local what = not info and 0 or info.source == ARGV[5] and 1 or 2
  if what == 1 and is_absent and pod_load(pod) > 0 then
    what = 3
    if not info.terminating then
      info.terminating = true
      pod_put(pod, info)
      pod_place(pod, info)
    end
  elseif what == 1 then
    for _, call_sid in ipairs(pod_calls(pod)) do
      call_ended(ended, call_sid, call_record(call_sid), 'gone')
      call_drop(call_sid, pod, info.tier)
    end
    pod_leave(pod, info)
  end
  local n = #answer
  answer[n + 1] = what
  answer[n + 2] = #ended / 5
  for k = 1, #ended do
    answer[n + 2 + k] = ended[k]
  end
  if #answer > CALLS_MAX * 5 then
    break
  end
end
return answer
