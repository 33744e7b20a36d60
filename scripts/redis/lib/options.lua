-- What an allocation asks for beside a pod, from its argument `options`. The first character is
-- YES if a webhook asks, any other one if not; most often there is nothing more. Else letters
-- follow, and five lines: the holder or '', the pod to resume on or '', HOLD_MAX_WAIT,
-- HOLD_MAX_CALLS, HOLD_AGEING.
local function options_read(options)
  local flags, holder, pod, max_wait, max_calls, ageing =
    string.match(options, '^(%w+)\n([^\n]*)\n([^\n]*)\n(%d+)\n(%d+)\n(%d+)$')
  local function has(letter)
    return string.find(flags, letter, 2, true) ~= nil
  end
  return {waits = has(CONST.ASK_WAITS), awaits = has(CONST.ASK_AWAITS_STREAM),
    is_resume = has(CONST.ASK_RESUMES), is_unsettled = has(CONST.ASK_UNSETTLES), holder = holder,
    pod = pod, max_wait = max_wait, max_calls = tonumber(max_calls), ageing = tonumber(ageing)}
end
