---------------------------------------------------------------- registration

do
local DIALECT_NAMES = { "dcp", "upr", "draft", "upr-proto" }

local function reset()
  connections, connection_list = {}, {}
  verdicts, snapshots, previous_seqnos, outstandings, links = {}, {}, {}, {}, {}
  tracked, keys_kept, Notes.over = 0, 0, {}
  forget_packets()
end

local taken_ports = ""

local function apply_preferences()
  local prefs = upr.prefs
  forced_dialect = DIALECT_NAMES[prefs.dialect]
  checks, inspect = prefs.checks, prefs.inspect
  beside = prefs.where == 3
  body_limit, kept_limit, json_shown = prefs.limit, prefs.kept, prefs.json
  show_keys, show_values, exact = prefs.keys, prefs.values, prefs.places
  local ports = prefs.where == 1 and "" or tostring(prefs.ports)
  if ports ~= taken_ports then
    local port_table = DissectorTable.get("tcp.port")
    if taken_ports ~= "" then
      port_table:remove(taken_ports, upr)
      local found, builtin = pcall(Dissector.get, "couchbase")
      if found and builtin then
        port_table:add(taken_ports, builtin) -- as it was
      end
    end
    if ports ~= "" then
      port_table:add(ports, upr)
    end
    taken_ports = ports
  end
end

-- Before each capture; only now the preferences are known.
function upr.init()
  reset()
  pace_collector(true)
  apply_preferences()
end

function upr.prefs_changed()
  apply_preferences()
end

stream_field, seq_field = Field.new("tcp.stream"), Field.new("tcp.seq")
ack_field, behind_field = Field.new("tcp.ack"), Field.new("tcp.nxtseq")
Notes.field, Framing.completeness = Field.new("frame.comment"), Field.new("tcp.completeness")
self_dissector = Dissector.get("upr")
local has_json, json_found = pcall(Dissector.get, "json")
json_proto = has_json and json_found or nil
in_window = gui_enabled and gui_enabled() or false
if in_window then
  -- Wireshark reads a file without fields unless there is a filter; tshark has them, and two passes of it.
  local reason = Listener.new("frame", "tcp")
  function reason.packet() end
  function reason.reset() end
  function reason.draw() end
end

-- On any port: recognised by its bytes, and then for good.
upr:register_heuristic("tcp", function(tvb, pinfo, tree)
  local length = tvb:len()
  if length < HEADER or not is_ours(tvb:raw(0, length)) then
    return false
  end
  pinfo.conversation = upr
  upr.dissector(tvb, pinfo, tree)
  return true
end)

end

---------------------------------------------------------------- tshark -q -z upr,streams and -z upr,connections

do
local LINE = 72 -- characters that fit into a line of Wireshark's text window as it opens

-- Rows of text as a table whose columns are as wide as what is in them: numbers to the right, words to the left.
local function table_lines(header, rows)
  local widths, words = {}, {}
  for at, title in ipairs(header) do
    widths[at] = #title
    for _, row in ipairs(rows) do
      widths[at] = max(widths[at], #row[at])
      words[at] = words[at] or not row[at]:find("^%d*$")
    end
  end
  local lines = {}
  local function add(row)
    local cells = {}
    for at, text in ipairs(row) do
      local gap = (" "):rep(widths[at] - #text)
      cells[at] = words[at] and text .. gap or gap .. text
    end
    lines[#lines + 1] = (concat(cells, " "):gsub("%s+$", ""))
  end
  add(header)
  for _, row in ipairs(rows) do
    add(row)
  end
  return lines
end

-- The connections that are asked for, each with what it is called in the tables: the number of its tcp.stream, or its
-- place among all where TCP's fields were not there.
local function numbered(wanted)
  local found = {}
  for place, c in ipairs(connection_list) do
    if wanted(c) then
      local known = type(c.id) == "number"
      local number = known and format("%.0f", c.id) or "#" .. format("%d", place)
      found[#found + 1] = { c = c, order = known and c.id or WORD + place, number = number }
    end
  end
  table.sort(found, function(a, b)
    return a.order < b.order
  end)
  return found
end

local function place_of(address, port)
  return (address:find(":", 1, true) and "[" .. address .. "]" or address) .. ":" .. port
end

-- A connection's ends and name, in as many lines as they take.
local function describe(lines, number, c)
  local line = number .. ":"
  local name = (c.name or ""):gsub("%c", ".") -- it comes from the capture
  for _, part in ipairs({ place_of(c.first, c.port) .. " -", place_of(c.second, c.other_port), name }) do
    if #line + 1 + #part > LINE then
      lines[#lines + 1] = line
      line = (" "):rep(#number + 1)
    end
    line = part == "" and line or line .. " " .. part
  end
  lines[#lines + 1] = line
end

-- A table, and below it which connection has which number.
local function with_connections(header, rows, listed)
  local lines = table_lines(header, rows)
  if listed[1] then
    lines[#lines + 1] = ""
    lines[#lines + 1] = "connections, by tcp.stream:"
  end
  for _, each in ipairs(listed) do
    describe(lines, each.number, each.c)
  end
  return concat(lines, "\n")
end

local function count(number)
  return format("%.0f", number)
end

local function connection_lines()
  local rows = {}
  local listed = numbered(function(c)
    return c.frames > 0
  end)
  for at, each in ipairs(listed) do
    local c = each.c
    rows[at] = { each.number, c.dialect, era_name(c.since) or "", count(c.frames), count(c.bytes), count(c.unsynced) }
  end
  return with_connections({ "connection", "dialect", "era", "frames", "bytes", "unsynced" }, rows, listed)
end

local function stream_row(number, stream)
  local reason = stream.reason and (NAMES["stream end reason"][stream.reason] or count(stream.reason)) or "open"
  return {
    number, count(stream.vbucket), count(floor(stream.key / 65536)), count(stream.markers), count(stream.changes),
    count(stream.bytes), stream.last and count(stream.last) or "", reason,
  }
end

local function stream_lines()
  local rows = {}
  local listed = numbered(function(c)
    return c.stream_list and c.stream_list[1]
  end)
  for _, each in ipairs(listed) do
    for _, stream in ipairs(each.c.stream_list) do
      rows[#rows + 1] = stream_row(each.number, stream)
    end
  end
  local header = { "connection", "vbucket", "id", "snapshots", "changes", "bytes", "last seqno", "end" }
  return with_connections(header, rows, listed)
end

local function statistics(make)
  return function()
    local tap = Listener.new("frame")
    function tap.packet() end
    function tap.reset() end
    function tap.draw()
      print(make())
    end
  end
end

if register_stat_cmd_arg then
  register_stat_cmd_arg("upr,streams", statistics(stream_lines))
  register_stat_cmd_arg("upr,connections", statistics(connection_lines))
end

local function window(title, make)
  return function()
    local shown = TextWindow.new(title)
    shown:set(make())
  end
end

if gui_enabled and gui_enabled() and register_menu then
  register_menu("UPR/Connections", window("UPR connections", connection_lines), MENU_TOOLS_UNSORTED)
  register_menu("UPR/Streams", window("UPR streams", stream_lines), MENU_TOOLS_UNSORTED)
end

end
