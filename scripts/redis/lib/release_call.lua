-- include base
-- include release_common
-- release(): ends a call and gives its pod back to the pool to which the pod belongs now. Returns
-- the answer for that call: see release_and_allocate.lua. The common case needs little of the
-- library: see lib/release_common.lua.
-- @uses RELEASE_SIZE, ENDED_AT
local function release(call_sid, on_pod, why, provider)
  if RELEASE_SIZE == CONST.RELEASE_NAME then
    -- What follows among the arguments is the next call.
    on_pod, why, provider = '', CONST.TOMBSTONE_RELEASED, ''
  end
  local call_key = P .. 'call:' .. call_sid
  local record = rc('HMGET', call_key, 'pod_name', 'source_pool', 'merchant_id', 'provider',
    'allocated_at', 'renewed', 'reseller_id', 'granted', 'carriers', 'unsettled')
  local pod = record[1]
  if not pod then
    if HAS_LINE then
      -- include release_waiting
      return release_waiting(call_sid, on_pod, why, provider)
    end
    return {CONST.RELEASE_NOT_FOUND}
  end
  if on_pod ~= '' or provider ~= '' then
    -- include pattern
    -- include provider
    if on_pod ~= '' and not pattern_matches(on_pod, pod) then
      return {CONST.RELEASE_NOT_FOUND}
    end
    if provider ~= '' and call_has_other_provider(record, provider) then
      return {CONST.RELEASE_FORBIDDEN}
    end
  end
  if record[10] and on_pod == '' and provider == '' and why == CONST.TOMBSTONE_RELEASED then
    -- include unsettled
    local answer = call_kept(call_sid, record, record[10])
    if answer then
      return answer
    end
  end
  local info = rc('HGET', KEY.PODS, pod)
  record[3] = record[3] or record[7] -- as call_record() in lib/calls.lua
  local tier = info and string.sub(info, 1, #CONST.POD_FREE) == CONST.POD_FREE and
    call_release_common(call_sid, call_key, record, pod, info)
  if tier then
    if record[6] or record[8] then
      -- include tombstone
      tombstone_add(call_sid, why, record[9])
    end
    local answer = {CONST.RELEASE_DONE, pod, record[2] or '', record[3] or '', record[4] or '',
      record[5] or '0', info, tier, 0, record[6] or '', ENDED_AT}
    if record[8] then
      -- include granted
      granted_end(call_sid, record[8])
      granted_add(answer, record[8])
    end
    return answer
  end
  -- include release
  -- include tombstone
  if record[6] or record[8] then
    -- Its carriers get their notes from call_drop().
    tombstone_add(call_sid, why, '')
  end
  return call_release(call_sid, record, record[6], ENDED_AT, record[8])
end
