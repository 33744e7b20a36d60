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
    'allocated_at', 'renewed', 'reseller_id')
  local pod = record[1]
  if not pod then
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
  local carriers = record[6] and rc('HGET', call_key, 'carriers')
  local info = rc('HGET', KEY.PODS, pod)
  record[3] = record[3] or record[7] -- as call_record() in lib/calls.lua
  local tier = info and string.sub(info, 1, #CONST.POD_FREE) == CONST.POD_FREE and
    call_release_common(call_sid, call_key, record, pod, info)
  if tier then
    if record[6] then
      -- include tombstone
      tombstone_add(call_sid, why, carriers)
    end
    return {CONST.RELEASE_DONE, pod, record[2] or '', record[3] or '', record[4] or '',
      record[5] or '0', info, tier, 0, record[6] or '', ENDED_AT}
  end
  -- include release
  -- include tombstone
  if record[6] then
    -- Its carriers get their notes from call_drop().
    tombstone_add(call_sid, why, '')
  end
  return call_release(call_sid, record, record[6], ENDED_AT)
end
