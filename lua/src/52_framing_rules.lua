---------------------------------------------------------------- FRM: what is wrong with single frames

-- What the other parts use; everything else is private to this one.
local blame_defects, blame_oddities

do
local function maybe_newer(c)
  return c.hello_granted or c.since >= 500
end

function blame_defects(c, head, n)
  if c.damaged or (not c.opened and c.dialect ~= "draft") then
    return
  end
  local done = {}
  for i = 1, R.defect_count do
    local id = R.defects[i]
    local spec = DEFECTS[id]
    local rule, odd = spec.rule, spec.severity == "warning"
    if rule == "FRM-14" and not (head.name == "cache_transfer" and not head.response) then
      rule = "FRM-05"
    end
    if rule and spec.severity ~= "note" and not done[rule .. spec.severity] then
      done[rule .. spec.severity] = true
      local doubtful = (rule == "FRM-08" and id == "unknown-flag-bits" and maybe_newer(c))
        or (rule == "FRM-09" and not c.agreed.hello_collections)
        or (rule == "FRM-10" and c.agreed.open_no_value_with_underlying_datatype)
      if not doubtful then
        blame(n, rule, head.name .. ": " .. spec.title .. (R.details[i] ~= "" and " (" .. R.details[i] .. ")" or ""), odd and "warning" or nil, R.guilty[i])
      end
    end
  end
end

-- Rules about single frames that no defect stands for.
function blame_oddities(c, head, n, s, p)
  if head.flexible and not head.drafted and c.opened and not c.damaged and not c.hello_granted and not c.agreed.enable_stream_id then
    blame(n, "FRM-02", "flexible framing without HELLO and without stream ids: of servers before 6.5")
  end
  if head.opcode == SNAPSHOT_MARKER and not head.response and head.extras == 1 and c.opened then
    local version = field_value(s, p, "marker_version")
    if (version == 0 and R.value ~= 36) or (version == 2 and R.value ~= 52) then
      blame(n, "FRM-11", format("a marker of version %d with a value of %d bytes", version, R.value))
    end
  end
  if R.nmeta > 0 and c.since >= 500 and c.opened and not c.damaged and not c.agreed.enable_ext_metadata then
    blame(n, "FRM-12", format("nmeta %d, from a server of 5.0 or later, where it is 0", R.nmeta))
  end
  if (head.opcode == STREAM_REQUEST or head.opcode == ADD_STREAM) and not head.response and c.dialect == "dcp" and c.opened then
    local flags = field_value(s, p, "stream_flags")
    if flags and flags >= 512 and not maybe_newer(c) then
      blame(n, "FRM-08", format("stream flags 0x%x, of which some have no name", floor(flags)), nil, "stream_flags")
    end
  end
end

end
