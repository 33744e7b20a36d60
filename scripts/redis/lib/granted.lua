-- include base
-- include line_call
-- include notes
-- For how long a granted call has waited, in ms. `granted` is this field of its record: since when,
-- and its holder.
local function granted_wait(granted)
  return string.format('%.0f', now - (tonumber(string.match(granted, '^%d+')) or now))
end

-- The call is released. If it was granted, and its holder has not taken it, the answer RELEASE_DONE
-- gets the ms of waiting as its last element. `granted` as above, or false.
local function granted_add(answer, granted)
  answer[#answer + 1] = granted and granted_wait(granted) or nil
  return answer
end

-- A granted call is taken, or leaves its pod: how it has waited is not needed any more.
local function granted_forget(call_sid)
  line_call('ZREM', P .. 'line:granted', call_sid)
  rc('DEL', P .. 'waiting:' .. call_sid)
end

-- A call ends that was granted, and that its holder has not taken: the holder is told.
local function granted_end(call_sid, granted)
  granted_forget(call_sid)
  carriers_notify(CONST.NOTE_CHANGED .. call_sid, string.match(granted, ' (%S+)$'))
end
