-- include base
-- include line_call
-- include line
-- include line_grants
-- Adds the WAITING_TEXTS of a waiting call to an answer: merchant, provider, since, until, holder,
-- priority, position, estimate or 0, heard, 1 if it was rescued, the claim, its tiers with spaces
-- between them.
local function waiting_texts_of(answer, w, position, estimate)
  local n = #answer
  answer[n + 1] = w.merchant
  answer[n + 2] = w.provider or ''
  answer[n + 3] = string.format('%.0f', w.since)
  answer[n + 4] = string.format('%.0f', w.until_ms)
  answer[n + 5] = w.holder
  answer[n + 6] = w.priority
  answer[n + 7] = position
  answer[n + 8] = string.format('%.0f', estimate)
  answer[n + 9] = string.format('%.0f', w.heard)
  answer[n + 10] = w.allocated_at and 1 or 0
  answer[n + 11] = string.format('%.0f', w.claim)
  answer[n + 12] = w.pools
end

-- The same with its position and the estimate. The position is the best one that the call has in
-- the lines of its pools; 0 if it has no pools.
local function waiting_texts(answer, call_sid, w)
  local position, labels = 0, {}
  for tier in string.gmatch(w.pools, '%S+') do
    local before = line_call('ZRANK', line_key(tier), call_sid)
    if before and (position == 0 or before + 1 < position) then
      position = before + 1
    end
    labels[#labels + 1] = pool_label(tier)
  end
  local grants = grants_recent(labels)
  waiting_texts_of(answer, w, position,
    grants > 0 and math.floor(position * CONST.WAIT_ESTIMATE_MS / grants) or 0)
end
