-- include base
-- include line
-- Ends a call that has no pod, if it waits. Returns the answer of release_call.lua.
local function release_waiting(call_sid, on_pod, why, provider)
  local w = on_pod == '' and waiting_get(call_sid)
  if not w then
    return {CONST.RELEASE_NOT_FOUND}
  end
  if provider ~= '' and w.provider and w.provider ~= provider then
    return {CONST.RELEASE_FORBIDDEN}
  end
  if on_pod == '' and provider == '' and why == CONST.TOMBSTONE_RELEASED and
    now - (tonumber(w.unsettled or nil) or 0) < CONST.UNSETTLED_MS then
    -- As call_kept() in lib/unsettled.lua.
    return {CONST.RELEASE_KEPT, '', '', w.merchant, w.provider or '', '0', '0', ''}
  end
  waiting_finish(call_sid, w, why)
  return {CONST.RELEASE_WAITED, w.merchant, w.provider or '', waited_ms(w)}
end
