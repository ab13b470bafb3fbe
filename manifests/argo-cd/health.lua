-- Argo CD's health of a ModelDeployment. docs/how-to/argo-cd.md says how to install it.
--
-- Healthy: what the spec asks for serves. Progressing: it is on its way. Suspended: it waits for a person or for
-- metrics. Degraded: it will not come into service, or what serves is not well. Missing: nothing serves, and nothing
-- is on its way.

local function condition(status, type)
  for _, one in ipairs(status.conditions or {}) do
    if one.type == type then
      return one
    end
  end
  return {}
end

local function bare(digest)
  return (string.gsub(digest or "", "^sha256:", ""))
end

local progressing = {Pending = true, Starting = true, Checking = true, Soaking = true, Terminating = true}

local function health(spec, metadata, status)
  if status.phase == nil or (status.observedGeneration or 0) < metadata.generation then
    return "Progressing", "the operator has not looked at this generation yet"
  end
  local message = (status.reason or "") .. ": " .. (status.message or "")
  if status.phase == "Terminating" then
    return "Progressing", message
  end
  if condition(status, "Stalled").status == "True" or status.phase == "Failed" or status.phase == "RollingBack" then
    return "Degraded", message
  end
  if condition(status, "Degraded").status == "True" then
    return "Degraded", message
  end
  if status.phase == "Held" or status.phase == "AwaitingPromotion" or status.reason == "Paused" then
    return "Suspended", message
  end
  if progressing[status.phase] then
    return "Progressing", message
  end
  local wanted = spec.replicas == nil and 1 or spec.replicas
  if status.active == nil then
    return wanted == 0 and "Healthy" or "Missing", message
  end
  if (status.readyReplicas or 0) == 0 and wanted > 0 then
    return "Degraded", "no pod of the active colour is ready"
  end
  if condition(status, "Pinned").status == "True" or bare(status.active.digest) == bare(spec.model.sha256) then
    return "Healthy", message
  end
  return "Progressing", message
end

local hs = {}
hs.status, hs.message = health(obj.spec, obj.metadata, obj.status or {})
return hs
