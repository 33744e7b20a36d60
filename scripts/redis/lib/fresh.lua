-- include version
if rc('EXISTS', FRESH) == 0 then
  return STALE
end
