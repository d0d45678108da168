-- A small stub of Wireshark's Lua API: enough to load the plugin and to dissect bytes without Wireshark.
--
-- It refuses what any version of Wireshark refuses, in every Lua: a number that is no integer where an integer is asked
-- for, an attribute that does not exist, bytes that are not there, functions that are gone since Lua 5.1 or 5.2.
-- tests/support/contract.lua holds it against the real ones.
local log
local dissecting = false
local names = setmetatable({}, { __index = function(_, key) return key end })
base, frametype = names, names
expert = { group = names, severity = names }

local spread = table.unpack or unpack

-- Gone in some version.
bit = bit or { band = (bit32 and bit32.band) or load("return function(a, b) return a & b end")() }
bit32, unpack, loadstring, setfenv, getfenv = nil, nil, nil, nil, nil
math.pow, math.ldexp, math.cosh, string.gfind, table.getn, table.maxn = nil, nil, nil, nil, nil, nil

local function refuse(...)
  error(string.format(...), 3)
end

local function is_integer(value)
  if type(value) ~= "number" then
    return false
  elseif math.type then
    return math.type(value) == "integer"
  end
  return value == math.floor(value)
end

local function integer(value, what)
  if not is_integer(value) then
    refuse("%s must be an integer, not %s", what, tostring(value))
  end
  return value
end

local function text(value, what)
  if type(value) ~= "string" then
    refuse("%s must be a string, not %s", what, type(value))
  end
  return value
end

-- An object: its members, and functions of it. Anything else that is asked for is a mistake.
local function object(kind, members, methods)
  return setmetatable(members, {
    kind = kind,
    __index = function(_, name) return methods[name] or refuse("no such method/field '%s' of %s", tostring(name), kind) end,
  })
end

local function kind_of(value)
  local meta = type(value) == "table" and getmetatable(value)
  return meta and meta.kind
end

---------------------------------------------------------------- registering

ProtoField = setmetatable({}, { __index = function(_, kind)
  return function(abbreviation, title)
    text(abbreviation, "abbreviation")
    text(title, "title")
    return setmetatable({ abbreviation = abbreviation, type = kind }, { kind = "ProtoField" })
  end
end })
ProtoExpert = { new = function(abbreviation, title, group, severity)
  assert(group and severity, "an expert item has a group and a severity")
  text(title, "title")
  return setmetatable({ abbreviation = text(abbreviation, "abbreviation") }, { kind = "ProtoExpert" })
end }
Pref = setmetatable({}, { __index = function(_, kind) return function(_, default) return default end end })
function Proto(name)
  PROTO = setmetatable({ name = name, prefs = {} }, { kind = "Proto", __index = { register_heuristic = function(self, _, f) self.heuristic = f end } })
  return PROTO
end
DissectorTable = { get = function() return { add = function() end, remove = function() end } end }
Dissector = { get = function(name) return object("Dissector", { name = name }, { call = function() end }) end }
Listener = { new = function() return {} end }
DESEGMENT_ONE_MORE_SEGMENT = 268435455
function register_stat_cmd_arg(name, f) STATS = STATS or {}; STATS[name] = f end
function set_plugin_info() end
function get_version() return "stub" end

UInt64 = { new = function(low, high)
  if type(low) ~= "number" or (high ~= nil and type(high) ~= "number") then
    refuse("UInt64.new takes numbers")
  end
  local made = object("UInt64", { number = (high or 0) * 4294967296.0 + low }, {})
  getmetatable(made).__tostring = function() return string.format("%.0f", made.number) end
  return made
end }

-- Fields of other protocols: what the packet in hand has of them. COMMENTS are those of pcapng.
COMMENTS = {}
local TCP = { ["tcp.stream"] = 0 }

local function field_info(value)
  return setmetatable({ value = value }, { __call = function(self) return self.value end })
end

Field = { new = function(name)
  if dissecting then
    refuse("a Field extractor must be defined before taps or dissectors get called")
  end
  return function()
    local found = {}
    for i, value in ipairs(name == "frame.comment" and COMMENTS or { TCP[name] }) do
      found[i] = field_info(value)
    end
    return spread(found)
  end
end }

---------------------------------------------------------------- bytes

local function number(s)
  local value = 0
  for i = 1, #s do value = value * 256 + s:byte(i) end
  return value
end

local tvb_of
local range_methods = {
  uint = function(self)
    if #self.bytes < 1 or #self.bytes > 4 then
      refuse("TvbRange:uint() does not handle %d byte integers", #self.bytes)
    end
    return number(self.bytes)
  end,
  tvb = function(self) return tvb_of(self.bytes) end,
  len = function(self) return #self.bytes end,
}

local function part(s, o, n)
  integer(o, "offset")
  integer(n, "length")
  if o < 0 or n < 0 or o + n > #s then
    refuse("range is out of bounds")
  end
  return s:sub(o + 1, o + n)
end

-- Methods know their object by `self` alone: a plugin may look one up once and use it for all objects of a kind.
local tvb_methods = {
  len = function(self) return #self.bytes end,
  reported_len = function(self) return #self.bytes end,
  offset = function(self) return self.at end,
  range = function(self, o, n) return object("TvbRange", { bytes = part(self.bytes, o or 0, n or #self.bytes - (o or 0)) }, range_methods) end,
  raw = function(self, o, n) return part(self.bytes, o or 0, n or #self.bytes - (o or 0)) end,
}
function tvb_of(s, offset)
  local made = object("Tvb", { bytes = s, at = offset or 54 }, tvb_methods)
  getmetatable(made).__call = tvb_methods.range
  return made
end
ByteArray = { new = function(s, raw)
  assert(raw == true, "a text of hexadecimal digits")
  return object("ByteArray", {}, { tvb = function(_, title) text(title, "title"); return tvb_of(s, 0) end })
end }

---------------------------------------------------------------- the tree

local function shown(value)
  local kind = kind_of(value)
  if kind == "TvbRange" then return (value.bytes:gsub(".", function(c) return string.format("%02x", c:byte()) end)) end
  if kind == "UInt64" then return string.format("%.6f", value.number) end
  if type(value) == "number" then return string.format("%.6f", value) end
  return tostring(value)
end

local INTEGERS = { uint8 = 256, uint16 = 65536, uint32 = 4294967296, framenum = 4294967296 }

-- What a field takes, if it is not cut out of a packet.
local function check_value(field, value)
  local limit = INTEGERS[field.type]
  if value == nil then
    refuse("the value of %s is nil", field.abbreviation)
  elseif limit then
    integer(value, field.abbreviation)
    if value < 0 or value >= limit then
      refuse("%s cannot hold %s", field.abbreviation, tostring(value))
    end
  elseif field.type == "uint64" then
    if kind_of(value) ~= "UInt64" then
      refuse("%s takes a UInt64, not a %s", field.abbreviation, type(value))
    end
  elseif field.type == "double" then
    if type(value) ~= "number" then
      refuse("%s takes a number", field.abbreviation)
    end
  elseif field.type == "string" or field.type == "bytes" then
    text(value, field.abbreviation)
  elseif field.type == "bool" then
    if type(value) ~= "boolean" and not is_integer(value) then
      refuse("%s takes a boolean", field.abbreviation)
    end
  else
    refuse("unknown type %s", tostring(field.type))
  end
end

local item
local tree_methods = {
  referenced = function(_, what)
    if kind_of(what) ~= "Dissector" and kind_of(what) ~= "ProtoField" then
      refuse("referenced takes a field or a dissector")
    end
    return true
  end,
  append_text = function(_, words) text(words, "text") end,
  set_text = function(_, words) text(words, "text") end,
  set_generated = function() end,
  add = function(_, field, ...)
    local kind, count, what, value = kind_of(field), select("#", ...), ...
    if kind == "Proto" then
      if count > 0 and (kind_of(what) ~= "TvbRange" or (count > 1 and type(value) ~= "string")) then
        refuse("a protocol takes a range and a text")
      end
      return item()
    elseif kind ~= "ProtoField" then
      refuse("the first argument of TreeItem:add is no field")
    end
    local ranged = kind_of(what) == "TvbRange"
    if not ranged then
      check_value(field, what)
    elseif count > 1 then
      check_value(field, value)
    end
    log[#log + 1] = field.abbreviation .. "=" .. shown(ranged and count > 1 and value or what)
    return item()
  end,
  add_proto_expert_info = function(_, which, words)
    if kind_of(which) ~= "ProtoExpert" or (words ~= nil and type(words) ~= "string") then
      refuse("an expert item takes a text")
    end
    log[#log + 1] = "!" .. which.abbreviation .. " " .. tostring(words)
  end,
}
function item()
  return object("TreeItem", { visible = VISIBLE ~= false }, tree_methods)
end

---------------------------------------------------------------- packets

-- A column lives as long as its packet is looked at.
local column_methods = {}
local function alive(column)
  if not column.lives then
    refuse("expired column")
  end
end
function column_methods.set(self, words)
  alive(self)
  log[#log + 1] = "info=" .. text(words, "column")
  self.words = self.fenced .. words
end
function column_methods.append(self, words)
  alive(self)
  log[#log + 1] = "more=" .. text(words, "column")
  self.words = self.words .. words
end
function column_methods.fence(self) alive(self); self.fenced = self.words end
function column_methods.clear_fence(self) alive(self); self.fenced = "" end

local SETTABLE = { desegment_offset = integer, desegment_len = integer, conversation = function() end }
local READABLE = { number = true, visited = true, src = true, dst = true, src_port = true, dst_port = true, can_desegment = true,
  rel_ts = true, cols = true, desegment_offset = true, desegment_len = true }

-- Where the bytes of packets are in their TCP streams: each begins where the last one of its side ended.
local ends, starts_of = { [true] = 1, [false] = 1 }, {}

local function place_packet(length, number_of_packet, forward)
  local start = starts_of[number_of_packet] or ends[forward]
  starts_of[number_of_packet] = start
  ends[forward] = math.max(ends[forward], start + length)
  TCP["tcp.seq"], TCP["tcp.nxtseq"], TCP["tcp.ack"] = start, start + length, ends[not forward]
end

local column
-- `goes_on`: another tvb of the same packet.
function RUN(bytes, number_of_packet, forward, visited, offset, goes_on)
  log = {}
  dissecting = true
  if not goes_on then
    if column then column.lives = false end
    column = object("Column", { lives = true, fenced = "", words = "" }, column_methods)
    getmetatable(column).__tostring = function(self) return self.words end
  end
  column:fence() -- as TCP does between two parts of a packet
  local values = { number = number_of_packet, visited = visited, src = forward and "a" or "b", dst = forward and "b" or "a",
    src_port = forward and 40000 or 11210, dst_port = forward and 11210 or 40000, can_desegment = 2, rel_ts = number_of_packet * 0.001,
    cols = setmetatable({}, { __index = function(_, name) return name == "info" and column or refuse("no such column %s", name) end,
      __newindex = function(_, name, words) log[#log + 1] = name .. "=" .. text(words, name) end }) }
  local pinfo = setmetatable({}, {
    __index = function(_, name)
      if not READABLE[name] then
        refuse("no such field '%s' of Pinfo", tostring(name))
      end
      return values[name]
    end,
    __newindex = function(_, name, value)
      if not SETTABLE[name] then
        refuse("no such field '%s' of Pinfo", tostring(name))
      end
      SETTABLE[name](value, name)
      values[name] = value
    end,
  })
  place_packet(#bytes, number_of_packet, forward)
  PROTO.dissector(tvb_of(bytes, offset), pinfo, item())
  return table.concat(log, "\n"), values.desegment_offset, values.desegment_len
end
