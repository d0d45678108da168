---------------------------------------------------------------- numbers and bytes

local byte, find, sub, format, concat = string.byte, string.find, string.sub, string.format, table.concat
local band, floor, min, max = bit.band, math.floor, math.min, math.max
local HEADER = LIMITS.header
local TITLE = "Couchbase UPR/DCP replication"
-- A float in every Lua, so that 64-bit numbers are the same doubles everywhere: exact below 2^53.
local WORD = 4294967296.0
-- Places in a TCP stream count modulo this. Since Lua 5.3 it is an integer, and so is what comes of it: Wireshark 4.4 and
-- later refuse a float as an offset or a length, even a whole one.
local TCP_SPAN = 4294967296
local NO_RANGE = WORD * WORD

local function u32(a, b, c, d)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- The big-endian number of n bytes at place p (from 1) of a string.
local function number_at(s, p, n)
  if n == 8 then
    local a, b, c, d, e, f, g, h = byte(s, p, p + 7)
    return u32(a, b, c, d) * WORD + u32(e, f, g, h)
  end
  local result = 0
  for i = p, p + n - 1 do
    result = result * 256 + byte(s, i)
  end
  return result
end

---------------------------------------------------------------- messages by dialect and opcode

-- What the other parts use; everything else is private to this one.
local REFUSAL, PUSHED, DRAFTED, DRAFT_LOG, DRAFT_OPCODES, DCP, OPCODE, FORM_OF, DECISIVE
local HELLO, OPEN, ADD_STREAM, STREAM_REQUEST, NOOP, SNAPSHOT_MARKER
local telling, since_of, sibling_layouts, status_name

do
-- What a refusal looks like is never judged.
REFUSAL = { layouts = {}, key = "may", value = "may", body = "text", refusal = true }

local function numbered(list, table_of)
  for i = 1, #list do
    list[i] = table_of[list[i]]
  end
end

for _, layout in ipairs(SPEC.LAYOUTS) do
  numbered(layout.extras, SPEC.PARTS)
  numbered(layout.value, SPEC.PARTS)
end
for _, shape in ipairs(SPEC.SHAPES) do
  numbered(shape.layouts, SPEC.LAYOUTS)
  for _, layout in ipairs(shape.layouts) do
    shape.fixed = shape.fixed or #layout.value > 0
  end
end
for _, info in ipairs(SPEC.FRAME_INFOS) do
  numbered(info.fields, SPEC.PARTS)
end
for _, slots in pairs(SPEC.TABLES) do
  for _, slot in ipairs(slots) do
    slot.part = slot.part and SPEC.PARTS[slot.part]
    slot.name, slot.size = slot.text or slot.part.name, slot.part and slot.part.size or 4
  end
end
for _, event in pairs(EVENTS) do
  for version, fields in pairs(event.versions) do
    if type(fields) == "string" then
      event.versions[version] = { table = fields, slots = SPEC.TABLES[fields] }
    elseif fields then
      numbered(fields, SPEC.PARTS)
      fields.size = 0
      for _, part in ipairs(fields) do
        fields.size = fields.size + part.size
      end
    end
  end
end
for _, record in pairs(RECORDS) do
  numbered(record.fields, SPEC.PARTS)
end
numbered(SPEC.METADATA_ENTRY, SPEC.PARTS)

PUSHED, DRAFTED, DRAFT_LOG, DRAFT_OPCODES = {}, {}, nil, {}
for _, message in ipairs(MESSAGES) do
  message.request = message.request and SPEC.SHAPES[message.request]
  message.push = message.push and SPEC.SHAPES[message.push]
  message.responses = message.responses or {}
  for status, shape in pairs(message.responses) do
    message.responses[status] = SPEC.SHAPES[shape]
  end
  if message.server_push then
    PUSHED[message.opcode] = message
  elseif message.log_answer then
    DRAFT_LOG = message
  elseif message.dialect == "draft" then
    DRAFT_OPCODES[message.opcode] = true
    for _, subtype in ipairs(message.subtypes) do
      DRAFTED[message.opcode * 256 + subtype] = message
    end
  end
end
for _, opcodes in pairs(OPCODES) do
  for opcode, number in pairs(opcodes) do
    opcodes[opcode] = MESSAGES[number]
  end
end
DCP, OPCODE = OPCODES.dcp, {}
for opcode, message in pairs(DCP) do
  OPCODE[message.name] = opcode
end
HELLO, OPEN, ADD_STREAM, STREAM_REQUEST = OPCODE.hello, OPCODE.open, OPCODE.add_stream, OPCODE.stream_request
NOOP, SNAPSHOT_MARKER = OPCODE.noop, OPCODE.snapshot_marker

-- What requests prove about dialect and era, by opcode and extras length.
FORM_OF, DECISIVE = {}, {}
for _, form in ipairs(SPEC.FORMS) do
  if form.decisive then
    DECISIVE[form.opcode] = true
  else
    local key = form.opcode * 256 + form.extras
    FORM_OF[key] = FORM_OF[key] or {}
    FORM_OF[key][#FORM_OF[key] + 1] = form
  end
end

-- Up to which state of its connection a frame can change what is known of it: 0 never, 1 until it is plainly UPR and
-- the producer is known, 2 until the dialect is settled, 3 always.
function telling(opcode, extras)
  if opcode == HELLO then
    return 3
  elseif DRAFT_OPCODES[opcode] then
    return 2
  elseif not DCP[opcode] or DCP[opcode].dialect ~= "dcp" then
    return 0
  end
  return (opcode == OPEN or FORM_OF[opcode * 256 + extras]) and 2 or 1
end

-- The oldest release that sends requests of this form, as a number: 6.5 is 605. Without a frame, nil where its bytes
-- decide.
function since_of(head, s, p)
  if head.response or head.drafted or not head.upr then
    return 0
  end
  local since = head.flexible and LIMITS.flexible_since or 0
  for _, form in ipairs(FORM_OF[head.opcode * 256 + head.extras] or {}) do
    if form.version and not s then
      return nil
    elseif form.dialect == "dcp" and (not form.version or form.version == byte(s, p + HEADER + head.framing)) then
      since = max(since, form.since or 0)
    end
  end
  return since
end

local SIBLING = { upr = "dcp", dcp = "upr" }

-- The same request or answer as the other one of upr and dcp has it.
function sibling_layouts(message, status)
  local other = SIBLING[message.dialect]
  local twin = other and OPCODES[other][message.opcode]
  if not twin or twin.dialect ~= other then
    return {}
  end
  local shape = twin.request
  if status then
    shape = twin.responses[status]
  end
  return shape and shape.layouts or {}
end

function status_name(status)
  local name = NAMES.status[status]
  if name then
    return name
  end
  for _, family in ipairs(SPEC.STATUS_RANGES) do
    if status >= family[1] and status <= family[2] then
      return family[3]
    end
  end
end

end
