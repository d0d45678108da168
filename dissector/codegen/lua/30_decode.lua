---------------------------------------------------------------- one frame: parts, fields, defects

-- What the other parts use; everything else is private to this one.
local unsnappy, R, field_value, examine, check_document, ZERO_CAS

do
-- JSON, as strictly as the documents ask for it; only the messages whose value must be JSON are held to it.
local function is_json(s)
  local p, depth, limit = 1, 0, 200
  local value
  local function space()
    p = find(s, "[^ \t\r\n]", p) or #s + 1
  end
  local function text()
    p = p + 1
    while true do
      local q = find(s, '["\\%c]', p)
      if not q then
        return false
      end
      local c = sub(s, q, q)
      if c == '"' then
        p = q + 1
        return true
      elseif c == "\\" then
        local escape = sub(s, q + 1, q + 1)
        if escape == "u" and find(s, "^%x%x%x%x", q + 2) then
          p = q + 6
        elseif escape ~= "" and find('"\\/bfnrt', escape, 1, true) then
          p = q + 2
        else
          return false
        end
      elseif byte(c) == 127 then
        p = q + 1
      else
        return false
      end
    end
  end
  local function list(close, keyed)
    depth = depth + 1
    if depth > limit then
      return nil
    end
    p = p + 1
    space()
    if sub(s, p, p) == close then
      p, depth = p + 1, depth - 1
      return true
    end
    while true do
      if keyed then
        space()
        if sub(s, p, p) ~= '"' or not text() then
          return false
        end
        space()
        if sub(s, p, p) ~= ":" then
          return false
        end
        p = p + 1
      end
      local good = value()
      if not good then
        return good
      end
      space()
      local c = sub(s, p, p)
      p = p + 1
      if c == close then
        depth = depth - 1
        return true
      elseif c ~= "," then
        return false
      end
    end
  end
  function value()
    space()
    local c = sub(s, p, p)
    if c == "{" then
      return list("}", true)
    elseif c == "[" then
      return list("]", false)
    elseif c == '"' then
      return text()
    end
    local stop = select(2, find(s, "^-?%d+", p))
    if stop then
      if find(s, "^-?0%d", p) then
        return false
      end
      stop = select(2, find(s, "^%.%d+", stop + 1)) or stop
      stop = select(2, find(s, "^[eE][+-]?%d+", stop + 1)) or stop
      p = stop + 1
      return true
    end
    for _, word in ipairs({ "true", "false", "null" }) do
      if sub(s, p, p + #word - 1) == word then
        p = p + #word
        return true
      end
    end
    return false
  end
  local good = value()
  if good == nil then
    return true -- nested deeper than is worth checking
  end
  space()
  return good and p > #s
end

-- One raw snappy block; nil and a defect when it is none.
function unsnappy(s, limit)
  local size, p, shift = 0, 1, 1
  while true do
    local b = byte(s, p)
    if not b or shift > 268435456 then
      return nil, "snappy-invalid"
    end
    size, shift, p = size + b % 128 * shift, shift * 128, p + 1
    if b < 128 then
      break
    end
  end
  if size > limit then
    return nil, "snappy-too-large"
  elseif size > 32 * #s then
    return nil, "snappy-invalid"
  end
  -- Copies reach back, mostly not far: finished pieces are joined now and then, and the youngest are looked into.
  local out, count, made, flat = {}, 0, 0, ""
  while p <= #s do
    local tag = byte(s, p)
    local kind = tag % 4
    p = p + 1
    if kind == 0 then
      local length = floor(tag / 4) + 1
      if length > 60 then
        local bytes = length - 60
        if p + bytes - 1 > #s then
          return nil, "snappy-invalid"
        end
        length = 1
        local unit = 1
        for i = 0, bytes - 1 do
          length, unit = length + byte(s, p + i) * unit, unit * 256
        end
        p = p + bytes
      end
      if p + length - 1 > #s or made + length > size then
        return nil, "snappy-invalid"
      end
      count = count + 1
      out[count] = sub(s, p, p + length - 1)
      p, made = p + length, made + length
    else
      local length, back
      if kind == 1 then
        local low = byte(s, p)
        if not low then
          return nil, "snappy-invalid"
        end
        length, back, p = floor(tag / 4) % 8 + 4, floor(tag / 32) * 256 + low, p + 1
      else
        local bytes = kind == 2 and 2 or 4
        if p + bytes - 1 > #s then
          return nil, "snappy-invalid"
        end
        length, back = floor(tag / 4) + 1, 0
        for i = bytes - 1, 0, -1 do
          back = back * 256 + byte(s, p + i)
        end
        p = p + bytes
      end
      if back == 0 or back > made or made + length > size then
        return nil, "snappy-invalid"
      end
      flat = flat .. concat(out, "", 1, count)
      count = 0
      local from = made - back + 1
      local piece = sub(flat, from, from + length - 1)
      while #piece < length do
        piece = piece .. sub(piece, 1, min(back, length - #piece))
      end
      count = 1
      out[1] = piece
      made = made + length
    end
  end
  if made ~= size then
    return nil, "snappy-invalid"
  end
  return flat .. concat(out, "", 1, count)
end

-- The collection id in front of a key: its number and size; size 0 when it is malformed or not in its shortest form.
local function collection_of(key)
  local id, unit = 0, 1
  for i = 1, min(#key, 5) do
    local b = byte(key, i)
    id, unit = id + b % 128 * unit, unit * 128
    if b < 128 then
      if (b ~= 0 or i == 1) and id < WORD then
        return id, i
      end
      return 0, 0
    end
  end
  return 0, 0
end

-- What examine found out about the frame that it looked at last. One table for all frames: nothing is kept.
R = { flaws = 0, fields = 0, nmeta = 0, parts = {}, at = {}, defects = {}, details = {}, infos = {} }

local function report(defect, detail)
  local n = R.flaws + 1
  R.flaws, R.defects[n], R.details[n] = n, defect, detail
end

-- Take as many of the declared fields as the bytes from `at` (offset in the frame) up to `stop` hold whole.
local function read_parts(fields, at, stop)
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
local function check_names(s, p, first)
  for i = first, R.fields do
    local part = R.parts[i]
    if part.reserved or part.names or part.flags then
      local value = number_at(s, p + R.at[i], part.size)
      if part.reserved and value > 0 then
        report("reserved-not-zero", part.name)
      elseif part.names and not NAMES[part.names][value] then
        report("enum-out-of-range", format("%s is %.0f", part.name, value))
      elseif part.flags and not FLAGS[part.flags].lenient then
        local all = FLAGS[part.flags].all
        local known = 0
        for _, bit_of in ipairs(FLAGS[part.flags].bits) do
          if floor(value / bit_of[1]) % 2 == 1 then
            known = known + bit_of[1]
          end
        end
        if value ~= known and all then
          report("unknown-flag-bits", format("%s has 0x%x", part.name, floor(value - known)))
        end
      end
    end
  end
end

local INFO_BY_ID = { [true] = {}, [false] = {} }
for _, info in ipairs(FRAME_INFOS) do
  INFO_BY_ID[info.response or false][info.id] = info
end

local function read_frame_infos(s, p, framing, have, response, whole)
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
local function read_extras(head, s, p, extras_at, extras_end, have, value)
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

local function check_presence(head, shape, layout, key, value)
  local name = layout and layout.name or "message"
  if key > 0 and shape.key == "must not" then
    report("key-unexpected", format("%d bytes", key))
  elseif key == 0 and shape.key == "must" then
    report("key-missing", "the key length is 0")
  end
  if layout and shape.fixed then
    local expected = layout.value_size
    if value == expected then
      return
    elseif expected == 0 then
      report("value-unexpected", format("%d bytes", value))
    elseif value == 0 then
      report("value-missing", format("%s has %d bytes of value", name, expected))
    else
      report("value-length", format("%d bytes, %s has %d", value, name, expected))
    end
  elseif value > 0 and shape.value == "must not" then
    report("value-unexpected", format("%d bytes", value))
  elseif value == 0 and shape.value == "must" then
    report("value-missing", "the value is empty")
  end
end

ZERO_CAS = string.rep("\0", 8)

local function check_header(head, shape, s, p)
  if not head.drafted then
    if head.datatype > FLAGS.datatype.all then
      report("datatype-invalid", format("0x%02x", head.datatype))
    elseif shape.datatypes and not shape.datatypes[head.datatype] then
      report("datatype-not-allowed", format("0x%02x", head.datatype))
    end
  end
  if shape.cas then
    local zero = sub(s, p + 16, p + 23) == ZERO_CAS
    if shape.cas == "zero" and not zero then
      report("cas-not-zero", "")
    elseif shape.cas == "not zero" and zero then
      report("cas-zero", "the CAS is 0")
    end
  end
end

function field_value(s, p, name)
  for i = 1, R.fields do
    if R.parts[i].name == name then
      return number_at(s, p + R.at[i], R.parts[i].size)
    end
  end
end

local function read_event(s, p, value_at, have, value, key, whole)
  local id, version = field_value(s, p, "event"), field_value(s, p, "event_version")
  local event = id and version and EVENTS[id]
  if not event then
    return
  end
  if event.key == "must" and key == 0 then
    report("key-missing", event.name .. " has a name")
  elseif event.key == "must not" and key > 0 then
    report("key-unexpected", format("%s has %d bytes", event.name, key))
  end
  local fields = event.versions[version]
  if fields == nil then
    report("event-version-unknown", format("%s version %d", event.name, version))
  elseif fields then
    read_parts(fields, value_at, min(value_at + value, have))
    if whole and value ~= fields.size then
      report("value-length", format("%d bytes, %s version %d has %d", value, event.name, version, fields.size))
    end
  end
end

local function check_control(key, value)
  local known = CONTROLS[key]
  if not known then
    report("control-key-unknown", key)
  elseif known.words then
    if not known.words[value] then
      report("control-value-invalid", key .. " = " .. value)
    end
  elseif not find(value, known.pattern) or (known.most and #value > known.most)
    or (known.last and not find(value, known.last)) then
    report("control-value-invalid", key .. " = " .. value)
  end
end

local function check_cache_records(s, p, at, stop)
  local size = RECORDS["cache transfer records"].size
  while at < stop do
    if at + size > stop then
      report("records-malformed", "a record is cut short")
      return
    end
    local value, key = number_at(s, p + at + 24, 4), number_at(s, p + at + 36, 2)
    if at + size + key + value > stop or key < LIMITS.cache_key or key > LIMITS.key then
      report("records-malformed", "a record does not fit")
      return
    end
    at = at + size + key + value
  end
end

local function check_metadata(s, p, at, stop)
  if byte(s, p + at) ~= LIMITS.metadata_version then
    report("nmeta-invalid", "version")
    return
  end
  at = at + 1
  while at < stop do
    local length = at + 3 <= stop and number_at(s, p + at + 1, 2)
    if not length or at + 3 + length > stop then
      report("nmeta-invalid", "an entry does not fit")
      return
    end
    at = at + 3 + length
  end
end

-- Look at the frame at place p (from 1) of s, of which `have` bytes are there: fills R. No bytes make it raise.
function examine(head, collections, s, p, body, have)
  R.flaws, R.fields, R.infos, R.layout = 0, 0, {}, nil
  R.collection, R.collection_size, R.nmeta = nil, 0, 0
  local spec, shape = head.spec, head.shape
  if head.fault then
    report(head.fault, head.name)
  end
  local whole = have >= HEADER + body
  local framing, extras, key = head.framing, head.extras, head.key
  if not whole then
    report("truncated-frame", format("%d of %d bytes are missing", HEADER + body - have, HEADER + body))
  end
  if body > LIMITS.body then
    report("body-too-large", format("%.0f bytes", body))
  end
  if head.flexible and framing == 0 and spec and spec.unannounced then -- E-41
    local surplus = body - extras - key
    if (surplus == LIMITS.stream_id_size or (surplus > LIMITS.stream_id_size and head.datatype ~= 0))
      and have > HEADER and byte(s, p + HEADER) == LIMITS.stream_id_tag then
      report("framing-length-omitted", "a stream id precedes the extras, the header says 0 bytes")
      framing = LIMITS.stream_id_size
    end
  end
  if framing + extras + key > body then
    report("lengths-exceed-body", format("framing %d + extras %d + key %d > total body %.0f", framing, extras, key, body))
    framing = min(framing, body)
    extras = min(extras, body - framing)
    key = min(key, body - framing - extras)
  end
  local extras_at = HEADER + framing
  local key_at = extras_at + extras
  local value_at = key_at + key
  local value = HEADER + body - value_at
  R.framing, R.extras, R.key, R.value = framing, extras, key, value
  R.extras_at, R.key_at, R.value_at = extras_at, key_at, value_at
  if framing > 0 then
    read_frame_infos(s, p, framing, have, head.response, whole)
  end
  local layout = read_extras(head, s, p, extras_at, key_at, have, value)
  R.layout = layout
  if shape and not shape.refusal then
    check_presence(head, shape, layout, key, value)
    check_header(head, shape, s, p)
  elseif not head.drafted and head.datatype > FLAGS.datatype.all then
    report("datatype-invalid", format("0x%02x", head.datatype))
  end
  if head.status and not status_name(head.status) then
    report("status-unknown", format("0x%04x", head.status))
  end
  if shape and shape.document and key > 0 then
    if key > (collections and LIMITS.key or LIMITS.key - 1) then
      report("key-too-long", format("%d bytes", key))
    end
    if collections and value_at <= have then
      local id, size = collection_of(sub(s, p + key_at, p + value_at - 1))
      if size == 0 then
        report("collection-id-invalid", "")
      else
        if size == key then
          report("key-empty", "")
        end
        R.collection, R.collection_size = id, size
      end
    end
  end
  if spec and spec.secret then
    return
  end
  local complete = HEADER + body <= have
  local stop = min(HEADER + body, have)
  if layout and #layout.value > 0 then
    local first = R.fields + 1
    read_parts(layout.value, value_at, stop)
    check_names(s, p, first)
  end
  local kind = shape and shape.body
  if kind == "system event" then
    read_event(s, p, value_at, have, value, key, complete)
  end
  if shape and shape.parameter and complete then
    check_control(sub(s, p + key_at, p + value_at - 1), sub(s, p + value_at, p + stop - 1))
  end
  if kind == "document" then
    R.nmeta = field_value(s, p, "nmeta") or 0
    if R.nmeta > 0 and complete then
      if R.nmeta > value then
        report("nmeta-exceeds-value", format("nmeta is %d, the value has %d bytes", R.nmeta, value))
      else
        check_metadata(s, p, stop - R.nmeta, stop)
      end
    end
  elseif kind == "cache transfer records" then
    if complete then
      check_cache_records(s, p, value_at, stop)
    end
  elseif kind and RECORDS[kind] then
    if complete and value % RECORDS[kind].size > 0 then
      report("records-malformed", format("%d bytes are no multiple of %d", value, RECORDS[kind].size))
    end
  elseif kind == "JSON" and value > 0 and complete and not is_json(sub(s, p + value_at, p + stop - 1)) then
    report("json-invalid", "the value is not JSON")
  end
end

-- What is wrong with the xattr section of a value: where the document starts, or nil.
local function check_xattrs(plain)
  local stop = #plain >= 4 and 4 + number_at(plain, 1, 4)
  if not stop or stop > #plain then
    report("xattr-invalid", "the section does not fit")
    return 0
  end
  local at = 4
  while at < stop do
    local size = at + 4 <= stop and number_at(plain, at + 1, 4)
    at = at + 4
    local pair = size and sub(plain, at + 1, at + size) or ""
    local zero = find(pair, "\0", 1, true)
    if not size or at + size > stop or not zero or zero == #pair or byte(pair, #pair) ~= 0 then
      report("xattr-invalid", "a pair does not add up")
      break
    end
    at = at + size
  end
  return stop
end

-- Look into a whole document: snappy, xattrs, JSON. Returns how many defects were found.
function check_document(head, s, p, body, examined)
  if not head.shape or head.shape.body ~= "document" then
    return 0
  end
  if not examined then
    R.flaws, R.value_at, R.nmeta = 0, HEADER + head.extras + head.key, 0
  end
  local before = R.flaws
  local stop = HEADER + body - (R.nmeta <= HEADER + body - R.value_at and R.nmeta or 0)
  local plain = sub(s, p + R.value_at, p + stop - 1)
  if plain == "" then
    return 0
  end
  if floor(head.datatype / 2) % 2 == 1 then
    local inflated, defect = unsnappy(plain, LIMITS.body)
    if not inflated then
      report(defect, "")
      return R.flaws - before
    end
    plain = inflated
  end
  if floor(head.datatype / 4) % 2 == 1 then
    plain = sub(plain, check_xattrs(plain) + 1)
  end
  if head.datatype % 2 == 1 and plain ~= "" and not is_json(plain) then
    report("json-invalid", "the datatype says JSON, the document is none")
  end
  return R.flaws - before
end

end
