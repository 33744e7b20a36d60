-- include pods
-- include calls
-- include restore
-- Renews a call that has a record, also after its lease has expired, if its slot is its own or
-- free. Returns CALL_RENEWED. If another call has the slot by now, it returns CALL_CONFLICT and
-- removes the rest of this call; `lost` gets the texts of the ended call. `who`: RENEWED_BY_…
local function call_renew_checked(call_sid, pod, info, record, lost, who, lease_ms, record_ms)
  if not call_has_slot(call_sid, pod) and not call_restore(call_sid, pod, info, lease_ms) then
    call_end(lost, call_sid, record, pod, info and info.tier or nil, CONST.END_EXPIRED)
    return CONST.CALL_CONFLICT
  end
  if record[7] then
    call_take(call_sid)
  end
  call_renew(call_sid, pod, who, lease_ms, record_ms)
  return CONST.CALL_RENEWED
end
