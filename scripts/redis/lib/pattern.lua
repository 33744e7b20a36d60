-- Does the pod's name match? A pattern is a name, or the beginning of a name with a * behind it. As
-- name_fits_pod() in src/core/names.h.
local function pattern_matches(pattern, pod)
  if string.sub(pattern, -1) == '*' then
    return string.sub(pod, 1, #pattern - 1) == string.sub(pattern, 1, -2)
  end
  return pattern == pod
end
