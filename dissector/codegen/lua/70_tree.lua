---------------------------------------------------------------- the protocol and its fields

local ok, upr = pcall(Proto, "upr", "Couchbase UPR/DCP replication")
if not ok then
  return -- loaded twice: once is enough
end

-- What the other parts use; everything else is private to this one.
local F, EXPERTS, show_keys, show_values, generated, show

do
local FIELD_ORDER = {}
F = {}
local BASES = { DEC = base.DEC, HEX = base.HEX, NONE = base.NONE }
local FRAME_KINDS = { REQUEST = frametype.REQUEST, RESPONSE = frametype.RESPONSE, NONE = frametype.NONE }

for _, row in ipairs(FIELDS) do
  local abbreviation, make = "upr." .. row.name, ProtoField[row.type]
  local field
  if row.type == "bool" then
    field = row.mask and make(abbreviation, row.title, row.width, nil, row.mask, row.doc) or make(abbreviation, row.title, base.NONE)
  elseif row.type == "framenum" then
    field = make(abbreviation, row.title, base.NONE, FRAME_KINDS[row.base], 0, row.doc)
  elseif row.type == "string" or row.type == "bytes" then
    field = make(abbreviation, row.title, base.NONE, row.doc)
  elseif row.type == "double" then
    field = make(abbreviation, row.title, row.doc)
  else
    local names = row.names and NAMES[row.names]
    if row.name == "magic" then
      names = {}
      for value, magic in pairs(MAGICS) do
        names[value] = magic.name
      end
    elseif row.name == "opcode" then
      names = {}
      for opcode, message in pairs(DCP) do
        names[opcode] = message.name
      end
    end
    field = make(abbreviation, row.title, BASES[row.base], names, nil, row.doc)
  end
  F[row.name] = field
  FIELD_ORDER[#FIELD_ORDER + 1] = field
end
upr.fields = FIELD_ORDER

local SEVERITIES = { error = expert.severity.ERROR, warning = expert.severity.WARN, info = expert.severity.CHAT, note = expert.severity.NOTE }
local EXPERT_ORDER = {}
EXPERTS = {}

local function declare(id, name, title, severity, group)
  local item = ProtoExpert.new("upr.expert." .. name, title, group, severity)
  EXPERTS[id] = item
  EXPERT_ORDER[#EXPERT_ORDER + 1] = item
end

for _, rule in ipairs(RULES) do
  local group = sub(rule.id, 1, 3) == "FRM" and expert.group.MALFORMED or expert.group.SEQUENCE
  declare(rule.id, rule.id:lower():gsub("-", "_"), rule.id .. ": " .. rule.title, SEVERITIES[rule.severity], group)
end
declare("status", "status", "Refused", expert.severity.NOTE, expert.group.RESPONSE_CODE)
declare("defect", "defect", "Odd, but known", expert.severity.NOTE, expert.group.PROTOCOL)
declare("unsynced", "unsynced", "Bytes skipped: no message starts here", expert.severity.NOTE, expert.group.REASSEMBLE)
upr.experts = EXPERT_ORDER

---------------------------------------------------------------- one frame in the tree

show_keys, show_values = true, true -- preferences
local json_dissector

-- Names of the set bits of a number.
local function flag_names(flags, value)
  local names = {}
  for _, each in ipairs(FLAGS[flags].bits) do
    if floor(value / each[1]) % 2 == 1 then
      names[#names + 1] = each[2]
    end
  end
  return #names > 0 and concat(names, "|") or "none"
end

function generated(tree, field, value)
  local item = tree:add(field, value)
  item:set_generated(true)
  return item
end

-- A declared field, with the names of its number or bits.
local function add_part(tree, tvb, name, part, at)
  local field = F[name]
  local range = tvb(at, part.size)
  local item = tree:add(field, range)
  if part.flags then
    local value = range:uint()
    item:append_text(" (" .. flag_names(part.flags, value) .. ")")
    for _, each in ipairs(FLAGS[part.flags].bits) do
      local bit_field = F[name .. "." .. each[2]]
      if bit_field then
        item:add(bit_field, range)
      end
    end
  elseif part.names and part.size < 8 then
    local label = NAMES[part.names][range:uint()]
    if label then
      item:set_text(part.name .. ": " .. label .. format(" (%d)", range:uint()))
    end
  end
  return item
end

local function add_header(tree, tvb, o, head)
  tree:add(F.magic, tvb(o, 1))
  local opcode = tree:add(F.opcode, tvb(o + 1, 1))
  if head.drafted then
    opcode:set_text(format("Opcode: %s (0x%02x)", head.name, head.opcode))
  end
  if head.flexible then
    tree:add(F.framing_length, tvb(o + 2, 1))
    tree:add(F.key_length, tvb(o + 3, 1))
  else
    tree:add(F.key_length, tvb(o + 2, 2))
  end
  tree:add(F.extras_length, tvb(o + 4, 1))
  if head.drafted then
    tree:add(F.subtype, tvb(o + 5, 1))
  else
    add_part(tree, tvb, "datatype", { name = "datatype", size = 1, flags = "datatype" }, o + 5)
  end
  if head.status then
    local item = tree:add(F.status, tvb(o + 6, 2))
    if head.status ~= 0 then
      item:add_proto_expert_info(EXPERTS.status, "Refused: " .. (status_name(head.status) or "unknown status"))
    end
  else
    tree:add(F.vbucket, tvb(o + 6, 2))
  end
  tree:add(F.body_length, tvb(o + 8, 4))
  tree:add(F.opaque, tvb(o + 12, 4))
  tree:add(F.cas, tvb(o + 16, 8))
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
        sizes[part.name] = tvb(place, part.size):uint()
      end
      place = place + part.size
    end
    at = at + record.size + sizes.key_length + sizes.value_length
    if at > stop then
      return
    end
    if sizes.key_length > 0 then
      tree:add(F["record.key"], tvb(place, sizes.key_length))
    end
  end
end

local function call_json(tvb, pinfo, tree)
  json_dissector = json_dissector or Dissector.get("json")
  if json_dissector then
    pcall(json_dissector.call, json_dissector, tvb, pinfo, tree)
  end
end

-- The xattr section at the start of a value: its size, or nil when it does not add up.
local function add_xattrs(tree, plain)
  if plain:len() < 4 then
    return nil
  end
  local stop, at = 4 + plain(0, 4):uint(), 4
  if stop > plain:len() then
    return nil
  end
  while at < stop do
    local size = at + 4 <= stop and plain(at, 4):uint()
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
      tree:add(F["xattr.name"], plain(at, zero - 1))
    end
    if zero < #pair - 1 then
      tree:add(F["xattr.value"], plain(at + zero, #pair - zero - 1))
    end
    at = at + size
  end
  return stop
end

-- A document: snappy, then xattrs, then the document itself.
local function add_document(tree, tvb, pinfo, at, size, datatype)
  local raw = tree:add(F.value, tvb(at, size))
  if size == 0 or datatype == 0 then
    return
  end
  local plain, from = tvb(at, size):tvb(), 0
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
    generated(tree, F.inflated, plain(0, plain:len()))
  end
  if datatype >= 4 then
    from = add_xattrs(tree, plain)
    if not from then
      raw:append_text(" [xattr-invalid]")
      return
    end
  end
  if plain:len() > from then
    tree:add(F.document, plain(from, plain:len() - from))
    if datatype % 2 == 1 then
      call_json(plain(from, plain:len() - from):tvb(), pinfo, tree)
    end
  end
end

local function add_metadata(tree, tvb, at, stop)
  at = at + 1
  while at + 3 <= stop do
    local length = tvb(at + 1, 2):uint()
    if at + 3 + length > stop then
      return
    end
    tree:add(F["metadata.id"], tvb(at, 1))
    if length > 0 then
      tree:add(F["metadata.data"], tvb(at + 3, length))
    end
    at = at + 3 + length
  end
end

local function add_key(tree, tvb, o, head)
  local at, size = o + R.key_at, R.key
  if size == 0 or size ~= head.key or at + size > tvb:len() then
    return
  end
  tree:add(F.key_bytes, tvb(at, size))
  if R.collection then
    tree:add(F.collection_id, tvb(at, R.collection_size), R.collection)
  end
  if show_keys and size > R.collection_size then
    tree:add(F.key, tvb(at + R.collection_size, size - R.collection_size))
  end
end

local function add_value(tree, tvb, pinfo, o, head, have)
  local at, size, shape = o + R.value_at, R.value, head.shape
  if size == 0 then
    return
  elseif head.spec and head.spec.secret then
    generated(tree, F.withheld, "a log-in is not shown")
    return
  elseif R.value_at + size > have then
    if R.value_at < have then
      tree:add(F.value, tvb(at, have - R.value_at))
    end
    return
  end
  local kind = shape and shape.body
  if kind == "text" or kind == "JSON" then
    tree:add(F.text, tvb(at, size))
    if kind == "JSON" or byte(tvb:raw(at, 1)) == 0x7b then
      call_json(tvb(at, size):tvb(), pinfo, tree)
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
  elseif show_values and not (R.layout and #R.layout.value > 0) then
    tree:add(F.value, tvb(at, size))
  end
end

-- Fields that are made from the frame and its connection.
local function add_generated(tree, tvb, o, head, c, have, body)
  generated(tree, F.name, head.name)
  generated(tree, F.dialect, head.dialect)
  generated(tree, F.response, head.response)
  if not head.flexible then
    generated(tree, F.framing_length, 0)
  end
  generated(tree, F.value_length, R.value)
  generated(tree, F.opaque_swapped, tvb(o + 12, 4):le_uint())
  generated(tree, F.flow_bytes, head.flow and HEADER + body + head.flow or 0)
  if R.layout then
    generated(tree, F.layout, R.layout.name)
  end
  if have < HEADER + body then
    generated(tree, F.missing, HEADER + body - have)
  end
  if c.name then
    generated(tree, F.connection_name, c.name)
  end
  local era = era_name(c.since)
  if era then
    generated(tree, F.era, era)
  end
end

-- Everything about the frame at offset o of a tvb, of which `have` bytes are there.
function show(tree, tvb, pinfo, o, head, s, c, side, body, have)
  examine(head, c.collections, s, o + 1, body, have)
  local item = tree:add(upr, tvb(o, have))
  item:append_text(", " .. head.info)
  if head.vbucket and head.upr then
    item:append_text(format(", vbucket %d", head.vbucket))
  end
  add_header(item, tvb, o, head)
  for _, info in ipairs(R.infos) do
    item:add(F.frame_info, tvb(o + info[2], info[3]), info[1])
  end
  for i = 1, R.fields do
    local part = R.parts[i]
    add_part(item, tvb, part.name, part, o + R.at[i])
    if head.spec and part.name == head.spec.seqno and part.name ~= "by_seqno" then
      item:add(F.by_seqno, tvb(o + R.at[i], part.size)):set_generated(true)
    end
  end
  if not R.layout and R.extras > 0 and R.fields == 0 and R.key_at <= have then
    item:add(F.extras, tvb(o + R.extras_at, R.extras))
  end
  add_key(item, tvb, o, head)
  for i = 1, R.flaws do
    local defect = R.defects[i]
    local entry = generated(item, F.defect, defect)
    if not DEFECTS[defect].rule then
      entry:add_proto_expert_info(EXPERTS.defect, DEFECTS[defect].title)
    end
  end
  add_generated(item, tvb, o, head, c, have, body)
  if c.producer and head.upr then
    generated(item, F.role, c.producer == side and "producer" or "consumer")
  end
  add_value(item, tvb, pinfo, o, head, have)
  return item
end

end
