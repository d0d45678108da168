---------------------------------------------------------------- heads
-- The first eight bytes of a frame say what it is. They repeat from frame to frame, so what follows from them is worked
-- out once and looked up by the bytes themselves.

-- What a message is to the state of its connection.
local DATA, MARKER, END, OSO, STATE, OTHER, ACK = 1, 2, 4, 5, 6, 8, 9
-- What the other parts use beside these; everything else is private to this one.
local head_at, heads_of, kind_at, kinds_of

do
local CLOSING, CACHE = 3, 7
local KINDS = {
  mutation = DATA, deletion = DATA, expiration = DATA, system_event = DATA, prepare = DATA, commit = DATA,
  abort = DATA, seqno_advanced = DATA, snapshot_marker = MARKER, snapshot_start = MARKER, snapshot_end = CLOSING,
  stream_end = END, oso_snapshot = OSO, set_vbucket_state = STATE, cache_transfer = CACHE,
  cache_transfer_end = CACHE, flush = OTHER, stream_start = OTHER, buffer_ack = ACK,
}

local function offset_of(layout, name)
  local at = 0
  for _, part in ipairs(layout.extras) do
    if part.name == name then
      return at
    end
    at = at + part.size
  end
end

-- Changes without a document, and those that are not visible yet: their keys have a set of their own.
local NO_DOCUMENT = { system_event = true, seqno_advanced = true }
local PREPARED = { prepare = true, abort = true }

-- Whether a frame with this head can only be wrong in ways that a few comparisons show.
local function is_plain(head)
  local shape, layout = head.shape, head.fits[1]
  if head.fault or not shape or shape.refusal or head.framing > 0 or #head.fits ~= 1 or shape.fixed then
    return false
  end
  if layout.note or layout.version or (shape.body and shape.body ~= "document") or shape.parameter then
    return false
  end
  if head.spec.secret or head.flexible or head.key > LIMITS.key - 1 or shape.cas then
    return false
  end
  if (head.key > 0 and shape.key == "must not") or (head.key == 0 and shape.key == "must") then
    return false
  end
  if head.datatype > FLAGS.datatype.all or (shape.datatypes and not shape.datatypes[head.datatype]) then
    return false
  end
  for _, part in ipairs(layout.extras) do
    if part.names or part.flags or part.reserved then
      return false
    end
  end
  return true
end

local function drafted_spec(head, body)
  local spec = DRAFTED[head.opcode * 256 + head.datatype]
  if spec and head.response and spec.opcode == DRAFT_LOG.opcode and spec.subtypes[1] == DRAFT_LOG.subtypes[1] and body > 0 then
    return DRAFT_LOG -- E-13: told apart by the body
  end
  return spec
end

local function find_message(head, dialect, body)
  if head.drafted then
    local spec = drafted_spec(head, body)
    if not spec then
      return nil, nil, "unknown-subtype"
    end
    local shape = spec.request
    if head.response then
      shape = spec.push
    end
    return spec, shape, not shape and "wrong-direction" or nil
  end
  local spec = OPCODES[dialect][head.opcode]
  if head.server_push then
    spec = PUSHED[head.opcode]
  end
  if not spec then
    return nil, nil, "unknown-opcode"
  end
  if head.response then
    return spec, spec.responses[head.number] or REFUSAL
  end
  return spec, spec.request
end

local function learn(dialect, prefix, body)
  local m, opcode, k1, k2, extras, datatype, n1, n2 = byte(prefix, 1, 8)
  local magic = MAGICS[m]
  local head = {
    magic = m, opcode = opcode, extras = extras, datatype = datatype, number = n1 * 256 + n2,
    response = magic.response, flexible = magic.flexible, server_push = magic.push,
    framing = magic.flexible and k1 or 0, key = magic.flexible and k2 or k1 * 256 + k2, dialect = dialect,
  }
  head.drafted = dialect == "draft" and DRAFT_OPCODES[opcode] and not magic.flexible and not magic.push
  head.spec, head.shape, head.fault = find_message(head, dialect, body)
  local spec, shape = head.spec, head.shape
  head.name = spec and spec.name or format("0x%02x", opcode)
  head.info = head.response and not head.drafted and head.name .. " response" or head.name
  head.status = head.response and not head.drafted and head.number or nil
  head.vbucket = not head.status and head.number or nil
  head.upr = spec and spec.dialect ~= "memcached" or false
  -- Layouts of this extras length; refusals keep the success form's extras or have none, and neither is judged.
  head.fits = {}
  local layouts = shape and shape.layouts or {}
  if shape and shape.refusal and spec.responses[0] then
    layouts = spec.responses[0].layouts
  end
  for _, layout in ipairs(layouts) do
    if layout.size == extras and not (shape.refusal and extras == 0) then
      head.fits[#head.fits + 1] = layout
    end
  end
  local pushed = head.drafted or not head.response
  head.kind = pushed and head.upr and KINDS[head.name] or nil
  head.refused = head.status and head.status ~= 0
  head.tell = telling(opcode, extras)
  head.since = since_of(head)
  head.flow = not head.response and spec and spec.flow or nil
  head.plain = is_plain(head)
  if head.plain then
    head.value_rule = shape.value
    head.least_value, head.most_value = shape.value == "must" and 1 or 0, shape.value == "must not" and 0 or WORD
    head.nmeta_at = offset_of(head.fits[1], "nmeta")
    head.document = shape.document
  end
  if spec and spec.seqno and head.kind == DATA and head.fits[1] then
    head.seqno_at = offset_of(head.fits[1], spec.seqno)
  end
  head.keyed, head.sync = head.key > 0 and not NO_DOCUMENT[head.name], PREPARED[head.name]
  head.quick = head.plain and head.kind == DATA and head.seqno_at == 0 and not head.drafted and head.since and head.flow
    and head.number < LIMITS.vbuckets
  return head
end

local HEADS_KEPT = 16384 -- a hostile capture must not fill the memory
local heads, heads_count = {}, 0

-- What the first eight bytes at place p mean in a dialect.
function head_at(known, dialect, s, p, body)
  local prefix = sub(s, p, p + 7)
  if heads_count > HEADS_KEPT then
    for _, table_of in pairs(heads) do
      for each in pairs(table_of) do
        table_of[each] = nil
      end
    end
    heads_count = 0
  end
  local head = learn(dialect, prefix, body)
  -- A draft's answer means one thing with a body and another without.
  if not (head.drafted and head.opcode == DRAFT_LOG.opcode) then
    known[prefix] = head
    heads_count = heads_count + 1
  end
  return head
end

function heads_of(dialect)
  local known = heads[dialect]
  if not known then
    known = {}
    heads[dialect] = known
  end
  return known
end

---------------------------------------------------------------- kinds
-- Requests whose heads differ in the length of their key and in their vbucket alone are of one kind, of which there are
-- few: they are looked up by the number that the other four bytes are, and no text is made.

local KINDS_KEPT = 4096 -- a hostile capture must not fill the memory
local kinds, kinds_count = {}, 0

-- The kind of a frame that was not looked up yet: its name, and the heads that such frames have with and without a key,
-- where these are quick; false where every frame is to be looked at.
function kind_at(known, dialect, magic, opcode, extras, datatype)
  local kind, of = false, MAGICS[magic]
  if of and not (of.response or of.flexible or of.push) and kinds_count < KINDS_KEPT then
    local first, last = string.char(magic, opcode), string.char(extras, datatype, 0, 0)
    local keyed, bare = learn(dialect, first .. "\0\1" .. last, 0), learn(dialect, first .. "\0\0" .. last, 0)
    if keyed.upr and not keyed.drafted then
      kind = { info = keyed.info, tell = keyed.tell, keyed = keyed.quick and keyed, bare = bare.quick and bare }
    end
    known[((magic * 256 + opcode) * 256 + extras) * 256 + datatype] = kind
    kinds_count = kinds_count + 1
  end
  return kind
end

function kinds_of(dialect)
  local known = kinds[dialect]
  if not known then
    known = {}
    kinds[dialect] = known
  end
  return known
end

end
