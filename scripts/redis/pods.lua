-- A page of pods by name, or one pod. ARGV: 4 the name after which it begins, 5 how many, or '' for just the pod
-- named in 4. Answers {server's time, are there more, number of names looked at, the last of them; for each pod:
-- name, record, is draining, is held out, last heartbeat or '', newest call or '', number of calls, calls…}.
-- include base
-- include pods
local names
local answer = {string.format('%.0f', now), 0, 0, ''}
if ARGV[5] == '' then
  names = {ARGV[4]}
else
  local limit = tonumber(ARGV[5])
  names = rc('ZRANGEBYLEX', P .. 'pods:names', ARGV[4] == '' and '-' or '(' .. ARGV[4], '+', 'LIMIT', 0, limit + 1)
  if #names > limit then
    names[#names] = nil
    answer[2] = 1
  end
end
answer[3] = #names
answer[4] = names[#names] or ''
local has_doubts = rc('TYPE', P .. 'pods:doubt').ok == 'hash'
for _, pod in ipairs(names) do
  local text = rc('HGET', P .. 'pods', pod)
  local info = text and pod_decode(text)
  local tier = not info and ARGV[5] == '' and rc('GET', P .. 'pod:tier:' .. pod)
  if tier then
    -- Registered by the first implementation: there is no record, and so it is on no page.
    info = {ready = true, terminating = false, held_until = 0, tier = tier, source = 'kubernetes', pinned = false,
      incarnation = '', address = ''}
    text = pod_encode(info)
  end
  if info then
    local calls = pod_calls(pod)
    local n = #answer
    answer[n + 1] = pod
    answer[n + 2] = text
    answer[n + 3] = pod_is_draining(pod, info) and 1 or 0
    answer[n + 4] = rc('SISMEMBER', P .. 'pods:out', pod)
    if has_doubts and string.find(rc('HGET', P .. 'pods:doubt', pod) or '', ' lost', 1, true) then
      answer[n + 4] = 1 -- see lib/mend.lua
    end
    answer[n + 5] = rc('ZSCORE', P .. 'heartbeats', pod) or ''
    answer[n + 6] = pod_lease(pod) or ''
    answer[n + 7] = #calls
    for k = 1, #calls do
      answer[n + 7 + k] = calls[k]
    end
  end
end
return answer
