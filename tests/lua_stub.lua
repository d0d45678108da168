-- A small stub of Wireshark's Lua API: enough to load the plugin and to dissect bytes without Wireshark.
local log
local names = setmetatable({}, { __index = function(_, key) return key end })
base, frametype = names, names
expert = { group = names, severity = names }
ProtoField = setmetatable({}, { __index = function(_, kind) return function(abbreviation) return { abbreviation = abbreviation, kind = kind } end end })
ProtoExpert = { new = function(abbreviation) return { abbreviation = abbreviation } end }
local defaults = {}
Pref = setmetatable({}, { __index = function(_, kind) return function(_, default) return default end end })
function Proto(name)
  PROTO = setmetatable({ name = name, prefs = {} }, { __index = { register_heuristic = function(self, _, f) self.heuristic = f end } })
  return PROTO
end
DissectorTable = { get = function() return { add = function() end, remove = function() end } end }
Dissector = { get = function() return { call = function() end } end }
local stream = setmetatable({ value = 0 }, { __call = function(self) return self.value end })
Field = { new = function(name) return function() return name == "tcp.stream" and stream or nil end end }
Listener = { new = function() return {} end }
UInt64 = { new = function(low, high) return high * 4294967296.0 + low end }
DESEGMENT_ONE_MORE_SEGMENT = 268435455
function register_stat_cmd_arg(name, f) STATS = STATS or {}; STATS[name] = f end
function set_plugin_info() end
if not bit then
  local native = load("return function(a, b) return a & b end")
  bit = { band = native and native() or bit32.band }
end
local function number(s)
  local value = 0
  for i = 1, #s do value = value * 256 + s:byte(i) end
  return value
end
local tvb_of
local function range(s, o, n)
  assert(o >= 0 and n >= 0 and o + n <= #s, "range out of bounds")
  local part = s:sub(o + 1, o + n)
  return { bytes = part, uint = function() return number(part) end, le_uint = function() return number(part:reverse()) end,
    tvb = function() return tvb_of(part) end }
end
-- Methods know their object by `self` alone: a plugin may look one up once and use it for all objects of a kind.
local methods = { len = function(self) return #self.bytes end, reported_len = function(self) return #self.bytes end,
  offset = function(self) return self.at end, range = function(self, o, n) return range(self.bytes, o, n) end,
  raw = function(self, o, n) return self.bytes:sub((o or 0) + 1, o and o + n or #self.bytes) end }
function tvb_of(s, offset)
  return setmetatable({ bytes = s, at = offset or 54 }, { __index = methods, __call = methods.range })
end
ByteArray = { new = function(s) return { tvb = function() return tvb_of(s, 0) end } end }
local function shown(value)
  if type(value) == "table" then return (value.bytes:gsub(".", function(c) return string.format("%02x", c:byte()) end)) end
  if type(value) == "number" then return string.format("%.6f", value) end
  return tostring(value)
end
local function item()
  return { visible = true, referenced = function() return true end, append_text = function() end, set_text = function() end, set_generated = function() end,
    add = function(_, field, what, value)
      assert(field, "no such field")
      if field.abbreviation then log[#log + 1] = field.abbreviation .. "=" .. shown(value == nil and what or value) end
      return item()
    end,
    add_proto_expert_info = function(_, which, text) log[#log + 1] = "!" .. which.abbreviation .. " " .. tostring(text) end }
end
-- A column lives as long as its packet is looked at.
local columns = {}
function columns.set(self, text) assert(self.alive, "expired column"); log[#log + 1] = "info=" .. text end
function columns.append(self, text) assert(self.alive, "expired column"); log[#log + 1] = "more=" .. text end
function columns.fence(self) assert(self.alive, "expired column") end
local column
-- `goes_on`: another tvb of the same packet.
function RUN(bytes, number_of_packet, forward, visited, offset, goes_on)
  log = {}
  if not goes_on then
    if column then column.alive = false end
    column = setmetatable({ alive = true }, { __index = columns })
  end
  local pinfo = { number = number_of_packet, visited = visited, src = forward and "a" or "b", dst = forward and "b" or "a",
    src_port = forward and 40000 or 11210, dst_port = forward and 11210 or 40000, can_desegment = 2, rel_ts = number_of_packet * 0.001,
    cols = setmetatable({}, { __index = { info = column }, __newindex = function(_, name, text) log[#log + 1] = name .. "=" .. text end }) }
  PROTO.dissector(tvb_of(bytes, offset), pinfo, item())
  return table.concat(log, "\n"), pinfo.desegment_offset, pinfo.desegment_len
end
