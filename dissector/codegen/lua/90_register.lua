---------------------------------------------------------------- registration

do
local DIALECT_NAMES = { "dcp", "upr", "draft", "upr-proto" }

local function reset()
  connections, connection_list = {}, {}
  verdicts, snapshots, previous_seqnos, outstandings, links = {}, {}, {}, {}, {}
  tracked, keys_kept = 0, 0
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
  pace_collector()
  apply_preferences()
end

function upr.prefs_changed()
  apply_preferences()
end

stream_field, seq_field = Field.new("tcp.stream"), Field.new("tcp.seq")
ack_field, behind_field = Field.new("tcp.ack"), Field.new("tcp.nxtseq")
Notes.field = Field.new("frame.comment")
self_dissector = Dissector.get("upr")
local has_json, json_found = pcall(Dissector.get, "json")
json_proto = has_json and json_found or nil
in_window = gui_enabled and gui_enabled() or false
if in_window then
  -- Wireshark reads a file without fields unless somebody has a filter; tshark has them, and two passes of it.
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

---------------------------------------------------------------- tshark -q -z upr,streams and -z upr,connections

local function by_number(a, b)
  return tostring(a.id) < tostring(b.id)
end

local function connection_lines()
  local lines = { format("%-44s %-9s %-8s %8s %12s %9s  %s", "connection", "dialect", "era", "frames", "bytes", "unsynced", "name") }
  for _, c in ipairs(connection_list) do
    if c.frames > 0 then
      lines[#lines + 1] = format("%-44s %-9s %-8s %8.0f %12.0f %9.0f  %s", c.first .. ":" .. c.port .. " - " .. c.second .. ":" .. c.other_port,
        c.dialect, era_name(c.since) or "", c.frames, c.bytes, c.unsynced, c.name or "")
    end
  end
  return concat(lines, "\n")
end

local function stream_lines()
  local lines = { format("%-44s %7s %6s %9s %8s %12s %10s  %s", "connection", "vbucket", "id", "snapshots", "changes", "bytes", "last seqno", "end") }
  for _, c in ipairs(connection_list) do
    for _, stream in ipairs(c.stream_list or {}) do
      local reason = stream.reason and (NAMES["stream end reason"][stream.reason] or format("%.0f", stream.reason)) or "open"
      lines[#lines + 1] = format("%-44s %7.0f %6.0f %9.0f %8.0f %12.0f %10s  %s",
        c.first .. ":" .. c.port .. " - " .. c.second .. ":" .. c.other_port, stream.vbucket, floor(stream.key / 65536),
        stream.markers, stream.changes, stream.bytes, stream.last and format("%.0f", stream.last) or "", reason)
    end
  end
  return concat(lines, "\n")
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
