-- include base
-- include pods
-- include calls
-- @leaves CALLS_MAX, rescue
-- The calls of a pod that cannot stay there: with ARG.rescues those go on that can
-- (lib/rescue.lua), and the others end. So that a script stays short, it looks at CALLS_MAX of
-- them.
local CALLS_MAX = 50
local rescue
if ARG.rescues == CONST.YES then
  -- include rescue
  rescue = pod_rescue
end

-- A granted call that was not taken yet waits again: see lib/wait_again.lua.
local function granted_goes_on(call_sid, record, pod, info)
  -- include wait_again
  return call_waits_again(call_sid, record, pod, info)
end

-- `ended` gets the texts of the calls that end, for the reason `why`. Returns the number of calls
-- that went on, and whether calls are left: then the script must be sent again.
local function calls_break(pod, info, calls, ended, why)
  local part, went_on, is_more, count = {}, {}, false, 0
  for i = 1, math.min(#calls, CALLS_MAX) do
    part[i] = calls[i]
  end
  if rescue then
    went_on, is_more = rescue(pod, info, part)
  end
  for _, call_sid in ipairs(part) do
    if went_on[call_sid] then
      count = count + 1
    elseif not is_more then
      local record = call_record(call_sid)
      if record[7] and granted_goes_on(call_sid, record, pod, info) then
        count = count + 1
      else
        call_end(ended, call_sid, record, pod, info.tier, why)
      end
    end
  end
  return count, is_more or #calls > #part
end
