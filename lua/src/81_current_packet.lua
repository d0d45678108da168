---------------------------------------------------------------- the packet in hand

local checks, beside, json_shown = true, false, 0
local self_dissector, json_proto
local places = {} -- by packet and tvb, where messages start, when that is not plainly at its first byte
-- Ordinals of the first frames of tvbs, and where these frames are, in one number: by packet, for one of its tvbs and for
-- the one that was put together, which are nearly all there are. Others have negative keys.
local ordinals, joined = {}, {}
local forgetful -- the packet from which on frames are not remembered
-- The packet in hand. Asking Wireshark is what takes the time: what is the same for all of a packet is asked for once.
local packet_offset, packet_c, packet_side, packet_lane, packet_wanted, packet_blind, packet_seen
local packet_plain -- whether nothing but an odd frame calls for a closer look
local packet_shown = false -- whether a frame of it is in the tree
local packet_notes -- what its comments say
local packet_number = NO_RANGE

local forget_packets, take_packet, keep_ordinal, ordinal_of, PLACES

do
PLACES = 262144 -- so many offsets a packet has
local REFERENCED, MARK, VISITED, SRC_PORT -- looked up once
local unpaced = 0 -- packets since the collector was looked after
local json_asked = false -- a filter names a field of JSON
local pass_wanted -- whether anybody asks for fields on the first pass
local pass_chosen -- which, where no tree is seen
local only_pass = false -- tshark prints its list on its last pass: where that is the first one, nothing is looked at again
-- The first of two passes may be without fields. It finds out where messages are, and the next one, which goes over the
-- packets in the same order, is the first as to what came before.
local blind_pass, followed = false, 0

-- A capture begins.
function forget_packets()
  places, ordinals, joined, forgetful, packet_number = {}, {}, {}, nil, NO_RANGE
  blind_pass, followed, json_asked, pass_wanted, pass_chosen = false, 0, false, nil, nil
end

local function marked(tree, field, value)
  local item = ADD(tree, field, value)
  MARK(item)
  return item
end

-- Filters are the same for all of a pass.
local function begin_pass(pinfo, tree)
  if not ADD then
    ADD, REFERENCED, MARK = tree.add, tree.referenced, tree.set_generated
    VISITED, SRC_PORT = getter_of(pinfo, "visited"), getter_of(pinfo, "src_port")
    generated = in_window and marked or ADD
  end
  pass_chosen = nil
  only_pass = Info.look(pinfo) and not in_window
  if json_shown == 0 and json_proto then
    -- A visible tree says that everything is wanted, so it tells nothing.
    json_asked = not tree.visible and REFERENCED(tree, json_proto)
  end
end

function take_packet(number, offset, pinfo, tree)
  if number <= packet_number then
    begin_pass(pinfo, tree)
  end
  unpaced = unpaced + 1
  if unpaced == 1024 then
    pace_collector(in_window or pass_wanted)
    unpaced = 0
  end
  local found, c, blind = stream_field and stream_field(), nil, false
  c = found and connections[found()]
  if not c then
    c, blind = connection_of(pinfo)
  end
  local side = c.twofold and side_of(c, pinfo) or SRC_PORT(pinfo) == c.port and 1 or 2
  local visited = VISITED(pinfo)
  -- On the first pass tshark asks for the same fields all the time; later on anything may be looked at, as in Wireshark.
  local wanted = pass_wanted
  if wanted == nil or visited or in_window then
    wanted = json_asked or REFERENCED(tree, self_dissector)
    if not visited then
      pass_wanted = wanted
    end
  end
  packet_number, packet_offset, packet_c, packet_side, packet_lane = number, offset, c, side, c.lanes[side]
  packet_wanted, packet_blind, packet_seen, packet_shown = wanted, blind, visited, false
  packet_notes = Notes.field() and Notes.of(number)
  Info.begin()
  if blind then
    blind_pass = true
  elseif blind_pass and visited and number > followed then
    followed, packet_seen = number, false
  end
  keeping = wanted or not only_pass or packet_notes ~= nil
  packet_plain = not (packet_seen or wanted or blind or beside or packet_notes)
  if wanted then
    local visible = tree.visible
    if expect_short_lives and not in_window and visible then
      expect_short_lives()
      expect_short_lives = nil
    end
    if not visible and not pass_chosen then
      choose_fields(function(field) return REFERENCED(tree, field) end)
      pass_chosen = chosen
    end
    chosen = not visible and pass_chosen
    -- A tree that is seen is one packet in Wireshark, and all of them in tshark.
    if in_window then
      exact = visible
    end
    json_wanted = json_shown == 1 or json_asked or (json_shown == 0 and in_window and exact)
  end
end

-- n is the ordinal of the first frame of a tvb, which is `ahead` bytes into it. A later pass may find it in a tvb that
-- begins elsewhere: since 4.6, TCP takes bytes away from a packet that complete a message of a later one.
function keep_ordinal(number, offset, ahead, n)
  local list, at = offset == 0 and joined or ordinals, offset + ahead
  local taken = list[number]
  if taken and taken % PLACES ~= at then
    ordinals[-(number * PLACES + at)] = n
  else
    list[number] = n * PLACES + at
  end
end

function ordinal_of(number, offset, ahead)
  local list, at = offset == 0 and joined or ordinals, offset + ahead
  local kept = list[number]
  if kept and kept % PLACES == at then
    return floor(kept / PLACES)
  end
  return ordinals[-(number * PLACES + at)]
end

end
