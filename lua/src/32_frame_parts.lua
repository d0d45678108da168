---------------------------------------------------------------- one frame: framing extras, extras, their fields

-- What the other parts use; everything else is private to this one.
local R, report, read_parts, check_names, read_frame_infos, read_extras, field_value

do
-- What examine found out about the frame that it looked at last. One table for all frames: nothing is kept.
R = { defect_count = 0, fields = 0, nmeta = 0, parts = {}, at = {}, defects = {}, details = {}, guilty = {}, infos = {} }

-- `field` is the one that is wrong, where that does not follow from the rule.
function report(defect, detail, field)
  local n = R.defect_count + 1
  R.defect_count, R.defects[n], R.details[n], R.guilty[n] = n, defect, detail, field
end

-- Take as many of the declared fields as the bytes from `at` (offset in the frame) up to `stop` hold whole.
function read_parts(fields, at, stop)
  for i = 1, #fields do
    local part = fields[i]
    if at + part.size > stop then
      return
    end
    local n = R.fields + 1
    R.fields, R.parts[n], R.at[n] = n, part, at
    at = at + part.size
  end
end

-- Report numbers without a meaning, unknown flags, reserved fields that hold something, from field number `first` on.
function check_names(s, p, first)
  for i = first, R.fields do
    local part = R.parts[i]
    if part.reserved or part.names or part.flags then
      local value = number_at(s, p + R.at[i], part.size)
      if part.reserved and value > 0 then
        report("reserved-not-zero", part.name, part.name)
      elseif part.names and not NAMES[part.names][value] then
        report("enum-out-of-range", format("%s is %.0f", part.name, value), part.name)
      elseif part.flags and not FLAGS[part.flags].lenient then
        local all = FLAGS[part.flags].all
        local known = 0
        for _, bit_of in ipairs(FLAGS[part.flags].bits) do
          if floor(value / bit_of[1]) % 2 == 1 then
            known = known + bit_of[1]
          end
        end
        if value ~= known and all then
          report("unknown-flag-bits", format("%s has 0x%x", part.name, floor(value - known)), part.name)
        end
      end
    end
  end
end

local INFO_BY_ID = { [true] = {}, [false] = {} }
for _, info in ipairs(SPEC.FRAME_INFOS) do
  INFO_BY_ID[info.response or false][info.id] = info
end

function read_frame_infos(s, p, framing, have, response, whole)
  local at, stop, seen = HEADER, min(HEADER + framing, have), {}
  while at < stop do
    local start = at
    local b = byte(s, p + at)
    local id, size = floor(b / 16), b % 16
    at = at + 1
    if id == 15 and at < stop then
      id, at = id + byte(s, p + at), at + 1
    end
    if size == 15 and at < stop then
      size, at = size + byte(s, p + at), at + 1
    end
    if at + size > stop then
      if whole then
        report("framing-malformed", format("the object at byte %d does not fit", start - HEADER))
      end
      return
    end
    if seen[id] then
      report("frame-info-repeated", format("id %d", id))
    end
    seen[id] = true
    local info = INFO_BY_ID[response][id]
    R.infos[#R.infos + 1] = { info and info.name or format("id %d", id), start, at + size - start }
    if not info then
      report("frame-info-unknown", format("id %d", id))
    elseif info.sizes and not info.sizes[size] then
      report("frame-info-length", format("%s has %d bytes", info.name, size))
    else
      local first = R.fields + 1
      read_parts(info.fields, at, at + size)
      check_names(s, p, first)
    end
    at = at + size
  end
end

local function fitting(layouts, size, s, p, extras_end, have, value)
  local first
  for i = 1, #layouts do
    local layout = layouts[i]
    if layout.size == size
      and (not layout.version or (extras_end <= have and byte(s, p + extras_end - 1) == layout.version))
      and (not layout.note or #layout.value == 0 or layout.version or layout.value_size == value) then
      if layout.value_size == value then
        return layout
      end
      first = first or layout
    end
  end
  return first
end

-- Choose the layout by extras length and version byte, and read the extras by it.
function read_extras(head, s, p, extras_at, extras_end, have, value)
  local spec, shape, size = head.spec, head.shape, extras_end - extras_at
  if not spec or not shape then
    return nil
  end
  local stop = min(extras_end, have)
  if shape.refusal then
    local layout = fitting(head.fits, size, s, p, extras_end, have, value)
    if layout then
      read_parts(layout.extras, extras_at, stop)
    end
    return layout
  elseif #shape.layouts == 0 then
    return nil
  end
  local layout = fitting(shape.layouts, size, s, p, extras_end, have, value)
  if not layout then
    for _, each in ipairs(shape.layouts) do
      if each.version and each.size == size then
        read_parts(each.extras, extras_at, stop)
        if stop > extras_at then
          report("marker-version-unknown", format("version %d", byte(s, p + stop - 1)))
        end
        return nil
      end
    end
    layout = fitting(sibling_layouts(spec, head.status), size, s, p, extras_end, have, value)
    if layout then
      report("layout-of-other-dialect", format("%s with %d bytes of extras: %s", spec.name, size, layout.name))
    end
  end
  if not layout then
    if size == 0 and shape.extras == "must" then
      report("extras-missing", spec.name .. " has none")
    elseif shape.extras == "must not" then
      report("extras-unexpected", format("%s has %d bytes", spec.name, size))
    else
      report("extras-length-unknown", format("%s has %d bytes", spec.name, size))
      local longest, shortest
      for _, each in ipairs(shape.layouts) do
        if each.size > 0 and not each.version then
          if each.size <= size and (not longest or each.size > longest.size) then
            longest = each
          end
          if not shortest or each.size < shortest.size then
            shortest = each
          end
        end
      end
      if longest or shortest then
        read_parts((longest or shortest).extras, extras_at, stop)
      end
    end
    return nil
  end
  if layout.note then
    report(layout.note, layout.name)
  end
  local first = R.fields + 1
  read_parts(layout.extras, extras_at, stop)
  check_names(s, p, first)
  return layout
end

-- The number that a field of the frame in R holds; nil where it has none.
function field_value(s, p, name)
  for i = 1, R.fields do
    if R.parts[i].name == name then
      return number_at(s, p + R.at[i], R.parts[i].size)
    end
  end
end

end
