---------------------------------------------------------------- one frame: what is wrong with it

-- What the other parts use; everything else is private to this one.
local examine, check_document, is_sound, ZERO_CAS

do
local function check_presence(head, shape, layout, key, value)
  local name = layout and layout.name or "message"
  if key > 0 and shape.key == "must not" then
    report("key-unexpected", format("%d bytes", key))
  elseif key == 0 and shape.key == "must" then
    report("key-missing", "the key length is 0")
  end
  if layout and (shape.fixed or #layout.value > 0) then
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

-- A little-endian number of up to 4 bytes at place `at` (from 0) of a string.
local function little(s, at, size)
  local result = 0
  for i = at + size, at + 1, -1 do
    result = result * 256 + byte(s, i)
  end
  return result
end

-- Where the text is that the slot at place `at` tells the distance to; nil where that leads outside, or it is none.
local function text_at(s, at)
  local distance = little(s, at, 4)
  local start = at + distance
  if distance == 0 or start + 4 > #s then
    return nil
  end
  local length = little(s, start, 4)
  if start + 5 + length > #s or byte(s, start + 5 + length) ~= 0 then
    return nil
  end
  return start, length
end

-- The slots of a FlatBuffers table in a string, in their order: { slot, place, low and high word, length of a text }; a
-- slot without a place has its default. Nil where anything leads outside. Nothing is followed twice.
local function slots_of(declared, s)
  local at = #s >= 4 and little(s, 0, 4)
  if not at or at + 4 > #s then
    return nil
  end
  local back = little(s, at, 4)
  local vtable = at - (back >= 2147483648 and back - WORD or back)
  if vtable < 0 or vtable + 4 > #s then
    return nil
  end
  local vtable_size, size = little(s, vtable, 2), little(s, vtable + 2, 2)
  if vtable_size < 4 or vtable_size % 2 == 1 or size < 4 or vtable + vtable_size > #s or at + size > #s then
    return nil
  end
  local found = {}
  for i, slot in ipairs(declared) do
    local inside = 2 + 2 * i < vtable_size and little(s, vtable + 2 + 2 * i, 2) or 0
    if inside == 0 then
      found[i] = { slot, nil, 0, 0 }
    elseif inside < 4 or inside + slot.size > size then
      return nil
    elseif slot.text then
      local start, length = text_at(s, at + inside)
      if not start then
        return nil
      end
      found[i] = { slot, start, 0, 0, length }
    elseif slot.size == 8 then
      found[i] = { slot, at + inside, little(s, at + inside, 4), little(s, at + inside + 4, 4) }
    else
      found[i] = { slot, at + inside, little(s, at + inside, slot.size), 0 }
    end
  end
  return found
end

-- Read a table into R.slots, a compressed one too (MB-54967): then the places are those of the decompressed value.
local function read_table(form, value)
  R.slots = slots_of(form.slots, value)
  if not R.slots then
    local plain = value ~= "" and unsnappy(value, LIMITS.body)
    R.slots = plain and slots_of(form.slots, plain)
    R.inflated = R.slots and plain
    report(R.slots and "event-table-compressed" or "event-table-invalid", form.table, "value")
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
  elseif fields and fields.table then
    if whole then
      read_table(fields, sub(s, p + value_at, p + value_at + value - 1))
    end
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

local function check_json(shape, value)
  local good, numbers = is_json(value)
  if not good then
    report("json-invalid", "the value is not JSON")
    return
  end
  for name, most in pairs(shape.most or {}) do
    if numbers[name] and numbers[name] > most then
      report("json-number-too-large", format("%s is %.0f, at most %d can be kept", name, numbers[name], most), "text")
    end
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
  R.defect_count, R.fields, R.infos, R.layout = 0, 0, {}, nil
  R.collection, R.collection_size, R.nmeta, R.slots, R.inflated = nil, 0, 0, nil, nil
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
  elseif kind == "JSON" and value > 0 and complete then
    check_json(shape, sub(s, p + value_at, p + stop - 1))
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
    R.defect_count, R.value_at, R.nmeta = 0, HEADER + head.extras + head.key, 0
  end
  local before = R.defect_count
  local stop = HEADER + body - (R.nmeta <= HEADER + body - R.value_at and R.nmeta or 0)
  local plain = sub(s, p + R.value_at, p + stop - 1)
  if plain == "" then
    return 0
  end
  if floor(head.datatype / 2) % 2 == 1 then
    local inflated, defect = unsnappy(plain, LIMITS.body)
    if not inflated then
      report(defect, "")
      return R.defect_count - before
    end
    plain = inflated
  end
  if floor(head.datatype / 4) % 2 == 1 then
    plain = sub(plain, check_xattrs(plain) + 1)
  end
  if head.datatype % 2 == 1 and plain ~= "" and not is_json(plain) then
    report("json-invalid", "the datatype says JSON, the document is none")
  end
  return R.defect_count - before
end

-- Whether a few comparisons show that nothing is wrong with a frame; see is_plain.
function is_sound(head, collections, s, p, body, have)
  local value = body - head.extras - head.key
  local rule = head.value_rule
  if value < 0 or have < HEADER + body or (value > 0 and rule == "must not") or (value == 0 and rule == "must") then
    return false
  end
  local nmeta = head.nmeta_at
  if nmeta then
    local high, low = byte(s, p + HEADER + nmeta, p + HEADER + nmeta + 1)
    if high + low > 0 then
      return false
    end
  end
  if collections and head.document then
    return head.key > 1 and byte(s, p + HEADER + head.extras) < 128
  end
  return true
end

end
