---------------------------------------------------------------- parts of a frame in the tree

-- What the other parts use; everything else is private to this one.
local show_keys, show_values, json_wanted, ADD, RANGE, generated, object_of, add_part, add_flags, add_document, add_value,
  record_places

do
-- Methods of Wireshark's objects are looked up once: that takes as long as many of the calls themselves.
-- ADD is TreeItem.add, RANGE Tvb.range; the dissector sets them. So it does `generated`, which adds a field that is not on
-- the wire: the brackets around it are for eyes, so that in tshark, which makes every field of every packet, it is ADD.

show_keys, show_values, json_wanted = true, true, false -- preferences
local json_dissector

-- Fields are added as usual, and the first item of each is remembered in a table by its field; without a table, no more.
local plain_add, plain_generated

function record_places(places)
  if plain_add then
    ADD, generated = plain_add, plain_generated
    plain_add, plain_generated = nil, nil
  end
  if not places then
    return
  end
  local function remembering(add)
    return function(tree, field, ...)
      local item = add(tree, field, ...)
      places[field] = places[field] or item
      return item
    end
  end
  plain_add, plain_generated = ADD, generated
  ADD, generated = remembering(ADD), remembering(generated)
end

-- Wireshark takes 64-bit numbers as objects only. Seqnos come again: as the one before the next, in other vbuckets, as
-- ends of snapshots. So the last object of each slot is kept. For whole numbers below 2^53.
local SLOTS = 4096
local new_uint64 = UInt64.new
local slot_numbers, slot_objects = {}, {}

function object_of(number)
  local slot = number % SLOTS
  if slot_numbers[slot] == number then
    return slot_objects[slot]
  end
  local object = new_uint64(number % WORD, floor(number / WORD))
  slot_numbers[slot], slot_objects[slot] = number, object
  return object
end

-- Names of the set bits of a number.
local function flag_names(flags, value)
  local names = {}
  for _, each in ipairs(FLAGS[flags].bits) do
    if floor(value / each[1]) % 2 == 1 then
      names[#names + 1] = each[2]
    end
  end
  return " (" .. (#names > 0 and concat(names, "|") or "none") .. ")"
end

local bit_fields, flag_texts = {}, {} -- by field: those of its bits, and words for the first values that it had
local TEXTS_KEPT = 256
local APPEND_TEXT

local function learn_flags(name, part)
  local list = {}
  for _, each in ipairs(FLAGS[part.flags].bits) do
    list[#list + 1] = F[name .. "." .. each[2]]
  end
  bit_fields[name], flag_texts[name] = list, { count = 0 }
  return list
end

-- A number of flags, with the names of those that are set, and each of them below it.
function add_flags(tree, name, part, range, value)
  local item = ADD(tree, F[name], range)
  local fields = bit_fields[name] or learn_flags(name, part)
  local texts = flag_texts[name]
  local text = texts[value]
  if not text then
    text = flag_names(part.flags, value)
    if texts.count < TEXTS_KEPT then
      texts[value], texts.count = text, texts.count + 1
    end
  end
  APPEND_TEXT = APPEND_TEXT or item.append_text
  APPEND_TEXT(item, text)
  for i = 1, #fields do
    ADD(item, fields[i], range)
  end
  return item
end

-- A declared field, with the names of its number or bits.
function add_part(tree, tvb, name, part, at)
  local range = RANGE(tvb, at, part.size)
  if part.flags then
    return add_flags(tree, name, part, range, range:uint())
  end
  local item = ADD(tree, F[name], range)
  if part.names and part.size < 8 then
    local label = NAMES[part.names][range:uint()]
    if label then
      item:set_text(part.name .. ": " .. label .. format(" (%d)", range:uint()))
    end
  end
  return item
end

local function add_records(tree, tvb, kind, at, stop)
  local record = RECORDS[kind]
  local prefix = kind == "failover log" and "failover_log." or kind == "vbucket seqnos" and "vbucket_seqnos." or ""
  while at + record.size <= stop do
    local place = at
    for _, part in ipairs(record.fields) do
      add_part(tree, tvb, prefix .. part.name, part, place)
      place = place + part.size
    end
    at = at + record.size
  end
end

local function add_cache_records(tree, tvb, at, stop)
  local record = RECORDS["cache transfer records"]
  while at + record.size <= stop do
    local place, sizes = at, {}
    for _, part in ipairs(record.fields) do
      add_part(tree, tvb, "record." .. part.name, part, place)
      if part.size < 8 then
        sizes[part.name] = RANGE(tvb, place, part.size):uint()
      end
      place = place + part.size
    end
    at = at + record.size + sizes.key_length + sizes.value_length
    if at > stop then
      return
    end
    -- A collection id and at least one byte of key: check_cache_records has seen to that.
    local id, size = collection_of(tvb:raw(place, sizes.key_length))
    if size > 0 then
      ADD(tree, F["record.collection_id"], RANGE(tvb, place, size), id)
    end
    if show_keys and sizes.key_length > size then
      ADD(tree, F["record.key"], RANGE(tvb, place + size, sizes.key_length - size))
    end
    if show_values and sizes.value_length > 0 then
      ADD(tree, F["record.value"], RANGE(tvb, place + sizes.key_length, sizes.value_length))
    end
  end
end

local function call_json(range, pinfo, tree)
  if json_wanted then
    json_dissector = json_dissector or Dissector.get("json")
    if json_dissector then
      pcall(json_dissector.call, json_dissector, range:tvb(), pinfo, tree)
    end
  end
end

-- The xattr section at the start of a value: its size, or nil when it does not add up.
local function add_xattrs(tree, plain)
  if plain:len() < 4 then
    return nil
  end
  local stop, at = 4 + RANGE(plain, 0, 4):uint(), 4
  if stop > plain:len() then
    return nil
  end
  while at < stop do
    local size = at + 4 <= stop and RANGE(plain, at, 4):uint()
    at = at + 4
    if not size or size < 2 or at + size > stop then
      return stop
    end
    local pair = plain:raw(at, size)
    local zero = find(pair, "\0", 1, true)
    if not zero or zero == #pair or byte(pair, #pair) ~= 0 then
      return stop
    end
    if zero > 1 then
      ADD(tree, F["xattr.name"], RANGE(plain, at, zero - 1))
    end
    if zero < #pair - 1 then
      ADD(tree, F["xattr.value"], RANGE(plain, at + zero, #pair - zero - 1))
    end
    at = at + size
  end
  return stop
end

-- A document: snappy, then xattrs, then the document itself.
function add_document(tree, tvb, pinfo, at, size, datatype)
  local range = RANGE(tvb, at, size)
  local raw = ADD(tree, F.value, range)
  if size == 0 or datatype == 0 then
    return
  elseif datatype == 1 then
    ADD(tree, F.document, range)
    call_json(range, pinfo, tree)
    return
  end
  local plain, from = range:tvb(), 0
  if floor(datatype / 2) % 2 == 1 then
    local inflated, defect = unsnappy(tvb:raw(at, size), LIMITS.body)
    if not inflated then
      raw:append_text(" [" .. defect .. "]")
      return
    end
    if #inflated == 0 then
      return
    end
    plain = ByteArray.new(inflated, true):tvb("Decompressed value")
    generated(tree, F.inflated, RANGE(plain, 0, plain:len()))
  end
  if datatype >= 4 then
    from = add_xattrs(tree, plain)
    if not from then
      raw:append_text(" [xattr-invalid]")
      return
    end
  end
  if plain:len() > from then
    local document = RANGE(plain, from, plain:len() - from)
    ADD(tree, F.document, document)
    if datatype % 2 == 1 then
      call_json(document, pinfo, tree)
    end
  end
end

local function add_metadata(tree, tvb, at, stop)
  at = at + 1
  while at + 3 <= stop do
    local length = RANGE(tvb, at + 1, 2):uint()
    if at + 3 + length > stop then
      return
    end
    ADD(tree, F["metadata.id"], RANGE(tvb, at, 1))
    if length > 0 then
      ADD(tree, F["metadata.data"], RANGE(tvb, at + 3, length))
    end
    at = at + 3 + length
  end
end

-- The FlatBuffers table of a system event. Its numbers are little-endian; what has its default is not on the wire.
local function add_table(tree, tvb, at)
  local set = {}
  for _, entry in ipairs(R.slots) do
    set[entry[1].name] = entry[3] + entry[4] > 0
  end
  local bytes = R.inflated and ByteArray.new(R.inflated, true):tvb("Decompressed value") or tvb
  local start = R.inflated and 0 or at
  for _, entry in ipairs(R.slots) do
    local slot, place, low, high, length = entry[1], entry[2], entry[3], entry[4], entry[5]
    if slot.text then
      if length and length > 0 then
        ADD(tree, F[slot.name], RANGE(bytes, start + place + 4, length))
      end
    elseif not slot.depends or set[slot.depends] then
      local number = slot.size == 8 and new_uint64(low, high) or low
      if place then
        ADD(tree, F[slot.name], RANGE(bytes, start + place, slot.size), number)
      else
        generated(tree, F[slot.name], number)
      end
    end
  end
end

-- The value of the frame in R.
function add_value(tree, tvb, pinfo, o, head, have)
  local at, size, shape = o + R.value_at, R.value, head.shape
  if size == 0 then
    return
  elseif head.spec and head.spec.secret then
    generated(tree, F.withheld, "log-ins, keys and tokens are not shown")
    return
  elseif R.value_at + size > have then
    if R.value_at < have then
      ADD(tree, F.value, RANGE(tvb, at, have - R.value_at))
    end
    return
  end
  local kind = shape and shape.body
  if kind == "text" or kind == "JSON" then
    local range = RANGE(tvb, at, size)
    ADD(tree, F.text, range)
    if kind == "JSON" or byte(tvb:raw(at, 1)) == 0x7b then
      call_json(range, pinfo, tree)
    end
  elseif kind == "cache transfer records" then
    add_cache_records(tree, tvb, at, at + size)
  elseif kind and RECORDS[kind] then
    add_records(tree, tvb, kind, at, at + size)
  elseif kind == "document" then
    local nmeta = R.nmeta <= size and R.nmeta or 0
    if size > nmeta and show_values then
      add_document(tree, tvb, pinfo, at, size - nmeta, head.datatype)
    end
    if nmeta > 0 then
      add_metadata(tree, tvb, at + size - nmeta, at + size)
    end
  elseif R.slots then
    add_table(tree, tvb, at)
    if show_values then
      ADD(tree, F.value, RANGE(tvb, at, size))
    end
  elseif show_values and not (R.layout and #R.layout.value > 0) then
    ADD(tree, F.value, RANGE(tvb, at, size))
  end
end

end
