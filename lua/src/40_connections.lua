---------------------------------------------------------------- connections: dialect, era, roles

-- What the other parts use; everything else is private to this one.
local REMEMBERED, forced_dialect, connections, connection_list, stream_field,
  seq_field, ack_field, behind_field, connection_of, side_of, learn_role, feed, era_name,
  note_version, version_at

local tracked = 0 -- ordinal of the last frame: see below
local Framing = {} -- rules about single frames

do
REMEMBERED = 8192 -- of each kind so many are kept per connection: a hostile capture must not fill the memory

connections, connection_list = {}, {}

local function set_dialect(c, dialect)
  if c.dialect ~= dialect then
    c.dialect, c.heads, c.kinds, c.changed = dialect, heads_of(dialect), kinds_of(dialect), true
    c.label = dialect == "memcached" and "Memcached" or dialect:upper()
    c.quick = dialect == "dcp"
  end
end

---------------------------------------------------------------- what connections were like, for every later pass

function era_name(since)
  if since == 0 then
    return nil
  elseif since >= 9900 then
    return "after 8.0"
  end
  return format("%d.%d", floor(since / 100), since % 100)
end

-- Something that is shown of a connection is another from frame n on.
function note_version(c, n)
  local versions = c.versions
  local last = versions[#versions]
  local v = {
    n = n, dialect = c.dialect, heads = c.heads, label = c.label, collections = c.collections, name = c.name,
    era = era_name(c.since), producer = c.producer, window = c.window,
  }
  if last and (last.n == n or #versions >= REMEMBERED) then
    v.n = last.n
    versions[#versions] = v
  else
    versions[#versions + 1] = v
  end
  c.now, c.changed = v, false
end

-- What a connection was like when frame n came, and up to which frame. Passes go forward mostly: the last answer is
-- tried first.
function version_at(c, n)
  local versions, found = c.versions, c.cursor
  local count = #versions
  if not found or versions[found].n > n or (found < count and versions[found + 1].n <= n) then
    local low, high = 1, count
    while low < high do
      local middle = floor((low + high + 1) / 2)
      if versions[middle].n <= n then
        low = middle
      else
        high = middle - 1
      end
    end
    found, c.cursor = low, low
  end
  return versions[found], found < count and versions[found + 1].n or NO_RANGE
end

---------------------------------------------------------------- connections

local function new_connection(id, pinfo)
  local c = {
    id = id, port = pinfo.src_port, other_port = pinfo.dst_port,
    first = tostring(pinfo.src), second = tostring(pinfo.dst), twofold = pinfo.src_port == pinfo.dst_port,
    weight = 0, since = 0, frames = 0, bytes = 0, unsynced = 0, versions = {},
    level = forced_dialect and 2 or 0, -- how much is known: see telling
    evidence = { upr = 0, dcp = 0 }, -- see weigh
    forms_sent = { upr = 0, dcp = 0 }, forms_asked = {}, -- see Framing.settled
    hellos = {}, drafts = {}, draft_count = 0,
    -- by side (1: the sender that was seen first):
    lanes = { {}, {} }, -- see locate
    doubt = { 0, 0 }, -- ordinal of the last frame after a hole
    torn = { false, false }, -- whether frames may be missing altogether
    unconfirmed = { 0, 0 }, -- so many legal headers are still to come before what was found after a hole is believed
    searched = { 0, 0 }, -- ordinal of the last frame that was searched for: it may be none
  }
  set_dialect(c, forced_dialect or "memcached")
  note_version(c, 0)
  connections[id] = c
  connection_list[#connection_list + 1] = c
  return c
end

-- The connection of a packet, and whether Wireshark has no fields of TCP on this pass: then it is unknown whether
-- bytes are missing, or which of two connections between the same ports it is.
function connection_of(pinfo)
  local found = stream_field and stream_field()
  local id
  if found then
    id = found() -- its value
  else
    local a, b = tostring(pinfo.src) .. pinfo.src_port, tostring(pinfo.dst) .. pinfo.dst_port
    id = a < b and a .. b or b .. a
  end
  return connections[id] or new_connection(id, pinfo), not found
end

-- The side of a sender on a connection whose ports are the same.
function side_of(c, pinfo)
  return tostring(pinfo.src) == c.first and 1 or 2
end

-- A frame of the opcodes that the draft shares with SET to INCREMENT: SET, unless it cannot be.
local function feed_draft(c, head, s, p)
  local spec = DRAFTED[head.opcode * 256 + head.datatype]
  if not spec then
    return
  end
  local opaque = sub(s, p + 12, p + 15)
  if not head.response and spec.request then
    local is_set = head.extras == LIMITS.set_extras and head.key > 0
    for _, layout in ipairs(spec.request.layouts) do
      if layout.size == head.extras and not is_set and c.draft_count < REMEMBERED then
        c.drafts[opaque], c.draft_count = head.number, c.draft_count + 1
        return
      end
    end
  elseif head.response and spec.push then
    local answered = head.opcode == LIMITS.draft_response and c.drafts[opaque] == head.number
    if answered or (head.opcode == LIMITS.draft_stream_message and head.key > 0) then
      c.drafted = c.drafted or not (c.leader or c.hello)
    end
  end
end

local function feed_hello(c, side, head, s, p, body)
  local opaque = sub(s, p + 12, p + 15)
  if not head.response or head.number == 0 then
    c.hello = true
  end
  if not head.response then
    c.hellos[side .. opaque] = true
  elseif c.hellos[3 - side .. opaque] and head.number == 0 then
    c.collections, c.changed = false, true
    local first = p + HEADER + head.framing + head.extras + head.key
    for at = first, p + HEADER + body - 2, 2 do
      local high, low = byte(s, at, at + 1)
      if high and low and high * 256 + low == LIMITS.collections then
        c.collections = true
      end
    end
  end
end

function learn_role(c, side, head, s, p)
  if head.opcode == OPEN and head.extras == LIMITS.open_extras then
    local flags = byte(s, p + HEADER + head.framing + LIMITS.open_flags_at + 3)
    -- The flags name the role of the receiver; a notifier is a producer of stream ends alone.
    if flags then
      c.producer, c.changed = band(flags, LIMITS.produces) ~= 0 and 3 - side or side, true
    end
  elseif not c.producer then
    local sender = head.spec and head.spec.sender
    if sender == "producer" or head.opcode == ADD_STREAM then
      c.producer, c.changed = side, true
    elseif sender == "consumer" then
      c.producer, c.changed = 3 - side, true
    end
  end
end

-- How much more speaks for a dialect than for the other one.
local function lead(c, dialect)
  return c.evidence[dialect] - c.evidence[dialect == "dcp" and "upr" or "dcp"]
end

-- A request that only one dialect has in this form. The dialect with more of these leads, and dcp in a tie. Each
-- message of a producer counts, stream requests of one form once: they may be refused.
local function weigh(c, opcode, dialect)
  if opcode == STREAM_REQUEST then
    local asked = "asked_" .. dialect
    if c[asked] then
      return
    end
    c[asked] = true
  end
  c.evidence[dialect] = c.evidence[dialect] + 1
  c.leader = lead(c, "dcp") >= 0 and "dcp" or "upr"
end

-- The dialect that is spoken, if it is beyond doubt: then a message in a form of the other one is a broken one. A producer's
-- messages decide, and stream requests only where those say nothing: see DialectTally.
-- `surely`: not by stream requests alone.
function Framing.settled(c, surely)
  local sent, asked = c.forms_sent, c.forms_asked
  local ahead = sent.dcp - sent.upr
  if forced_dialect then
    return forced_dialect
  elseif c.believed_hello or ahead > 0 or (ahead == 0 and asked.dcp and not asked.upr and not surely) then
    return "dcp"
  elseif ahead <= -2 or (ahead < 0 and asked.upr and not asked.dcp) then
    return "upr"
  end
end

local function settled_for_good(c)
  return c.believed_hello or math.abs(c.forms_sent.dcp - c.forms_sent.upr) >= 2
end

local function feed_upr(c, side, head, s, p, believed)
  local spec = DCP[head.opcode]
  local known = head.upr_size
  if known == nil then
    known = false
    for _, layouts in ipairs({ spec.request.layouts, sibling_layouts(spec) }) do
      for _, layout in ipairs(layouts) do
        known = known or layout.size == head.extras
      end
    end
    head.upr_size = known
  end
  if not known then
    return
  end
  c.weight = c.weight + (DECISIVE[head.opcode] and 2 or 1)
  local version = byte(s, p + HEADER + head.framing)
  for _, form in ipairs(FORM_OF[head.opcode * 256 + head.extras] or {}) do
    if not form.version or form.version == version then
      if not c.final then
        weigh(c, head.opcode, form.dialect)
      end
      if believed and head.opcode == STREAM_REQUEST then
        c.forms_asked[form.dialect] = true
      elseif believed then
        c.forms_sent[form.dialect] = c.forms_sent[form.dialect] + 1
      end
    end
  end
  learn_role(c, side, head, s, p)
end

-- What a frame gives away about its connection. Returns true when frames have to be looked at anew.
function feed(c, side, head, s, p, body)
  if head.server_push or head.framing + head.extras + head.key > body then
    return false
  end
  local opcode = head.opcode
  local believed = c.searched[side] <= tracked
  if DRAFT_OPCODES[opcode] and not head.flexible then
    feed_draft(c, head, s, p)
  elseif opcode == HELLO then
    feed_hello(c, side, head, s, p, body)
    c.believed_hello = c.believed_hello or (believed and c.hello)
  elseif not head.response and DCP[opcode] and DCP[opcode].dialect == "dcp" then
    feed_upr(c, side, head, s, p, believed)
  end
  local leader = c.leader and c.hello and "dcp" or c.leader
  local spoken = c.drafted and "draft" or leader or (c.weight >= 2 and "dcp" or "memcached")
  c.final = c.final or (spoken ~= "memcached" and (c.drafted or c.hello or (c.leader and lead(c, c.leader) >= 2)))
  if not forced_dialect and c.final and (c.drafted or settled_for_good(c)) then
    c.level = 2
  elseif c.level == 0 and (c.leader or c.weight >= 2) and c.producer then
    c.level = 1
  end
  local before = c.dialect
  set_dialect(c, forced_dialect or spoken)
  return before ~= c.dialect
end

end
