-- What Wireshark's Lua API takes and what it refuses, call by call. Run in each Wireshark and in the stub: what one of the
-- real ones refuses, the stub must refuse, and calls that begin with `+` are the plugin's own, which all must take. Those
-- that begin with `~` are for the stub alone: Wireshark 4.6 dies of them.
local p = Proto("probe", "Probe of the API")
local F = {
  u8 = ProtoField.uint8("probe.u8", "u8", base.HEX), u32 = ProtoField.uint32("probe.u32", "u32"),
  u64 = ProtoField.uint64("probe.u64", "u64"), frame = ProtoField.framenum("probe.frame", "frame", base.NONE, frametype.REQUEST, 0, "doc"),
  text = ProtoField.string("probe.text", "text", base.NONE, "doc"), bytes = ProtoField.bytes("probe.bytes", "bytes", base.NONE, "doc"),
  double = ProtoField.double("probe.double", "double", "doc"), bool = ProtoField.bool("probe.bool", "bool", base.NONE),
}
p.fields = { F.u8, F.u32, F.u64, F.frame, F.text, F.bytes, F.double, F.bool }
local note = ProtoExpert.new("probe.note", "note", expert.group.PROTOCOL, expert.severity.NOTE)
p.experts = { note }
local comment, place = Field.new("frame.comment"), Field.new("tcp.seq")
local whole = 3 * 4294967296.0 / 4294967296.0 -- a float since Lua 5.3

local function calls(tvb, pinfo, tree)
  local item = tree:add(p, tvb:range(0, 4), "title")
  return {
    { "+offset and length", function() pinfo.desegment_offset = 3; pinfo.desegment_len = DESEGMENT_ONE_MORE_SEGMENT end },
    { "+fields", function()
      item:add(F.u8, 3); item:add(F.u32, 4294967295); item:add(F.frame, 3); item:add(F.text, "text"); item:add(F.double, 2.5)
      item:add(F.bool, true); item:add(F.u64, UInt64.new(3, 1)); item:add(F.u64, UInt64.new(whole, 0.0))
      tree:add(p); item:add(F.u8, tvb:range(0, 1)); item:add(F.u64, tvb:range(0, 8)); item:add(F.u32, tvb:range(0, 1), 3)
    end },
    { "+texts", function() item:append_text("x"); item:set_text("x"); item:add_proto_expert_info(note); item:add_proto_expert_info(note, "x") end },
    { "+bytes", function() tvb:range(0, 4):uint(); tvb:raw(); tvb:raw(1, 2); ByteArray.new("abc", true):tvb("x"); tvb:range(0, 0) end },
    { "+column", function() local info = pinfo.cols.info; info:set("x"); info:clear_fence(); tostring(info); pinfo.cols.protocol = "x" end },
    { "+packet", function() assert(pinfo.number and pinfo.src_port and pinfo.can_desegment and pinfo.rel_ts and pinfo.visited ~= nil) end },
    { "+tree", function() assert(tree.visible ~= nil); tree:referenced(F.u8); tree:referenced(Dissector.get("probe")); item:set_generated() end },
    { "+other fields", function() comment(); assert(place()() and tvb:offset() and tvb:reported_len()) end },
    { "float as offset", function() pinfo.desegment_offset = whole end },
    { "float as length", function() pinfo.desegment_len = whole end },
    { "half as length", function() pinfo.desegment_len = 2.5 end },
    { "~half as number", function() item:add(F.u32, 2.5) end },
    { "~half as frame", function() item:add(F.frame, 2.5) end },
    { "~truth as number", function() item:add(F.u32, true) end },
    { "~nil as number", function() item:add(F.u32, nil) end },
    { "~number as 64 bits", function() item:add(F.u64, 3) end },
    { "~text as double", function() item:add(F.double, "x") end },
    { "~truth as text", function() item:add(F.text, true) end },
    { "~nil as field", function() item:add(nil, 3) end },
    { "half a byte", function() tvb:range(0.5, 2) end },
    { "bytes that are not there", function() tvb:range(0, tvb:len() + 1) end },
    { "raw bytes that are not there", function() tvb:raw(0, tvb:len() + 1) end },
    { "eight bytes as a number", function() tvb:range(0, 8):uint() end },
    { "five bytes as a number", function() tvb:range(0, 5):uint() end },
    { "number as an expert's text", function() item:add_proto_expert_info(note, 3) end },
    { "table as an expert's text", function() item:add_proto_expert_info(note, {}) end },
    { "unknown attribute", function() return pinfo.nosuch end },
    { "unknown attribute set", function() pinfo.nosuch = 1 end },
    { "packet's number set", function() pinfo.number = 1 end },
    { "late field", function() Field.new("tcp.port") end },
    { "bit32", function() return bit32.band(1, 1) end },
    { "unpack", function() return unpack({ 1 }) end },
    { "loadstring", function() return loadstring("return 1")() end },
    { "setfenv", function() return setfenv(1, {}) end },
    { "string.gfind", function() return string.gfind("a", "a") end },
    { "table.getn", function() return table.getn({}) end },
    { "table.maxn", function() return table.maxn({}) end },
  }
end

local said
function p.dissector(tvb, pinfo, tree)
  if not said and tvb:len() > 8 then
    said = {}
    for _, call in ipairs(calls(tvb, pinfo, tree)) do
      if call[1]:sub(1, 1) ~= "~" or get_version() == "stub" then
        said[#said + 1] = (pcall(call[2]) and "taken: " or "refused: ") .. call[1]
      end
    end
    CONTRACT = table.concat(said, "\n")
    pinfo.desegment_len = 0
    print(CONTRACT)
  end
  return tvb:len()
end
DissectorTable.get("tcp.port"):add(11210, p)
