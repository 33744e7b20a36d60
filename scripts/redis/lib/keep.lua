-- include pods
-- include calls
-- include restore
-- Renews a call that has a record, whether its lease has run out or not, as long as its slot is its own or free: gives r.
-- If another call has the slot by now it gives c, and what is left of this one goes, as five texts in `lost`.
local function call_keep(call_sid, pod, info, record, lost, lease_ms, record_ms)
  if not call_has_slot(call_sid, pod) and not call_restore(call_sid, pod, info, lease_ms) then
    call_ended(lost, call_sid, record, 'expired')
    call_drop(call_sid, pod, info and info.tier or nil)
    return 'c'
  end
  call_renew(call_sid, pod, lease_ms, record_ms)
  return 'r'
end
