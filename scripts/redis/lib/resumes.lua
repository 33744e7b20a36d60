-- include base
-- How often the provider of a call has asked how it goes on, since when: the fields `resumes` and
-- `resumes_from` of its record, or of its place in line. Returns them with one more; nil if that is
-- too often.
local function resume_counted(resumes, resumes_from)
  local count, from = tonumber(resumes or nil) or 0, tonumber(resumes_from or nil) or 0
  if count == 0 or now - from >= CONST.RESUMES_MS then
    count, from = 0, now
  end
  if count >= CONST.RESUMES_MAX then
    return nil
  end
  return string.format('%.0f', count + 1), string.format('%.0f', from)
end
