-- Does the pod belong to the pattern: its name, or the beginning of one with a * behind it? As name_fits_pod in src/core/names.h.
local function pod_fits(pattern, pod)
  if string.sub(pattern, -1) == '*' then
    return string.sub(pod, 1, #pattern - 1) == string.sub(pattern, 1, -2)
  end
  return pattern == pod
end
