---------------------------------------------------------------- the dissector

upr.prefs.where = Pref.enum(
  "Known ports", 2,
  "The ports below are those of the built-in couchbase dissector: leave them to it, take them, or take them and show beside it what it says",
  { { 1, "leave", 1 }, { 2, "take", 2 }, { 3, "beside", 3 } }, false
)
upr.prefs.ports = Pref.range("TCP ports", "11209-11210", "Ports to take; on all others traffic is recognised by its bytes", 65535)
upr.prefs.dialect = Pref.enum("Dialect", 0, "How to read connections", {
  { 0, "auto", 0 }, { 1, "dcp", 1 }, { 2, "upr", 2 }, { 3, "draft", 3 }, { 4, "upr-proto", 4 },
}, false)
upr.prefs.checks = Pref.bool("Check the rules", true, "Follow streams, answers and flow control, and report violations")
upr.prefs.inspect = Pref.bool("Check values", false, "Expand and read every document to see whether it is what its datatype says (FRM-10): takes time")
upr.prefs.limit = Pref.uint("Largest body", LIMITS.body, "Where a message must be searched for, no larger body is believed")
upr.prefs.keys = Pref.bool("Show keys", true, "Show document keys as text")
upr.prefs.values = Pref.bool("Show values", true, "Show values, and look into documents")
upr.prefs.json = Pref.enum(
  "Show JSON as a tree", 0,
  "Beside the text: auto does it in Wireshark, and where a filter asks for it; tshark prints every packet, which takes long",
  { { 0, "auto", 0 }, { 1, "always", 1 }, { 2, "never", 2 } }, false
)
upr.prefs.kept = Pref.uint(
  "Frames to remember", 8000000, "For so many frames Wireshark can show what came before them when it looks at them again"
)

local checks, beside, json_shown = true, false, 0
local self_dissector, json_proto, in_window
local json_asked = false -- somebody filters by a field of JSON
local places = {} -- by packet and tvb, where messages start, when that is not plainly at its first byte
local ordinals = {} -- by packet and tvb, the ordinal of its first frame
local forgetful -- the packet from which on frames are not remembered
-- The packet in hand. Asking Wireshark is what takes the time: what is the same for all of a packet is asked for once.
local packet_number, packet_offset, packet_c, packet_side, packet_wanted, packet_blind, packet_seen
-- The first of two passes may be without fields. It finds out where messages are, and the next one, which goes over the
-- packets in the same order, is the first as to what came before.
local blind_pass, followed = false, 0
local RAW, REPORTED, OFFSET, REFERENCED -- methods, looked up once

local function take_packet(number, offset, pinfo, tree)
  local blind
  if not ADD then
    ADD, REFERENCED = tree.add, tree.referenced
    -- The brackets around fields that are not on the wire are for eyes; tshark makes every field of every packet.
    MARK = in_window and tree.set_generated or function() end
  end
  if json_shown == 0 and json_proto and (not packet_number or number <= packet_number) then
    -- A new pass: filters are the same for all of it. A visible tree says that everything is wanted, so it tells nothing.
    json_asked = not tree.visible and REFERENCED(tree, json_proto)
  end
  info_packet = nil
  packet_c, blind = connection_of(pinfo)
  packet_number, packet_offset, packet_side = number, offset, side_of(packet_c, pinfo)
  packet_blind, packet_seen = blind, pinfo.visited
  if packet_blind then
    blind_pass = true
  elseif blind_pass and packet_seen and number > followed then
    followed, packet_seen = number, false
  end
  packet_wanted = json_asked or REFERENCED(tree, self_dissector)
  if packet_wanted then
    if expect_short_lives and not in_window and tree.visible then
      expect_short_lives()
      expect_short_lives = nil
    end
    -- A tree that is seen is one packet in Wireshark, and all of them in tshark.
    json_wanted = json_shown == 1 or json_asked or (json_shown == 0 and in_window and tree.visible)
  end
end

local function skip(tvb, tree, o, size)
  local item = ADD(tree, F.unsynced, RANGE(tvb, o, size))
  item:add_proto_expert_info(EXPERTS.unsynced)
end

-- A frame whose head is not known yet, or tells something about its connection.
local function meet(c, side, s, o, body)
  local prefix = sub(s, o + 1, o + 8)
  local head = c.heads[prefix] or head_at(c.heads, c.dialect, s, o + 1, body)
  if head.tell > c.level and feed(c, side, head, s, o + 1, body) then
    head = c.heads[prefix] or head_at(c.heads, c.dialect, s, o + 1, body)
  end
  return head
end

-- The first frame that later passes will know nothing more about.
local function say_kept(tree, number)
  forgetful = number
  local words = format("Behind %.0f frames, later passes show only what a frame itself says", kept_limit)
  tree:add_proto_expert_info(EXPERTS.kept, words)
end

function upr.dissector(tvb, pinfo, tree)
  if not RAW then
    RAW, RANGE, REPORTED, OFFSET = tvb.raw, tvb.range, tvb.reported_len, tvb.offset
  end
  local s = RAW(tvb)
  local length, reported, number, offset = #s, REPORTED(tvb), pinfo.number, OFFSET(tvb)
  local whole = reported == length
  if number ~= packet_number or offset == packet_offset then
    take_packet(number, offset, pinfo, tree)
  end
  local c, side, wanted, visited = packet_c, packet_side, packet_wanted, packet_seen
  local key = number * 262144 + offset
  local o, late, ordinal = 0, nil, nil
  local v, v_until -- what the connection is like, and up to which frame
  if visited then
    local place = places[key]
    ordinal = ordinals[key]
    v, v_until = version_at(c, ordinal or tracked)
    if place then
      o, late = place[1], place[2]
    end
    if number == forgetful then
      say_kept(tree, number)
    end
  else
    o, late = locate(c, side, reported, s, number, offset)
    if (o ~= 0 or late) and not packet_blind then
      places[key] = { o, late }
    end
    if not late and c.lost then
      lose(c, side)
      c.lost = nil
    end
  end
  local count, run, asked, first, guarded, fresh = 0, 0, false, nil, wanted, true
  local known, last_name = visited and v.heads or c.heads, nil
  local synced = o ~= nil
  o = o or 0
  while o < length do
    if visited and ordinal and ordinal + count >= v_until then
      v, v_until = version_at(c, ordinal + count)
      known = v.heads
    end
    local head = synced and known[sub(s, o + 1, o + 8)]
    local b1, b2, b3, b4 = byte(s, o + 9, o + 12)
    local total = b4 and ((b1 * 256 + b2) * 256 + b3) * 256 + b4 + HEADER
    if not head or not total or total > length - o or head.tell > c.level then
      -- Everything that is not a whole frame of a known kind.
      local left = length - o
      head = nil
      if synced and (not MAGICS[byte(s, o + 1)] or (left >= HEADER and total > LIMITS.body + 2097152)) then
        synced = false
        if left < HEADER then
          total = nil
        end
      elseif synced then
        if left < HEADER or (total > left and whole) then
          first, asked = o, left >= HEADER and total - left
          break
        end
        if visited then
          head = known[sub(s, o + 1, o + 8)] or head_at(known, v.dialect, s, o + 1, total - HEADER)
        else
          head = meet(c, side, s, o, total - HEADER)
          known = c.heads
        end
      else
        total = nil
      end
      if not synced then
        local found, maybe = search(s, o + 1 + (total and 1 or 0), not whole)
        local stop = found and found - 1 or maybe and maybe - 1 or length
        if stop > o then
          skip(tvb, tree, o, stop - o)
          if not visited and not late then
            unsynced(c, side, stop - o)
          end
        end
        o = stop
        if not found then
          first, c.unsure[side] = maybe and o or nil, maybe and true or nil
          break
        end
        synced = true
      end
    end
    if head then
      local have, body, n = min(total, length - o), total - HEADER, nil
      if visited then
        n = ordinal and ordinal + count
      elseif packet_blind then
        if c.changed then
          note_version(c, tracked)
        end
        v = c.now
      else
        n = tracked + 1
        tracked = n
        if n % 2048 == 0 then
          pace_collector()
        end
        if not ordinal then
          ordinal = n
          if n <= kept_limit then
            ordinals[key] = n
          end
        end
        if n == kept_limit + 1 then
          say_kept(tree, number)
        end
        local quick = head.quick and not late and have == total
        if checks and not (quick and track_quickly(c, side, head, s, o + 1, body, n)) then
          track(c, side, head, s, o + 1, body, have, n, number, pinfo, late)
        end
        if c.changed then
          note_version(c, n)
        end
        v = c.now
      end
      if wanted or head.refused or (n and verdicts[n]) then
        guarded = true
        local item = show(tree, tvb, pinfo, o, head, s, v, side, body, have, count == 0)
        if n and checks then
          show_state(item, v, n, fresh)
          fresh = false
        end
      end
      if (beside or not head.upr) and hand_over(RANGE(tvb, o, have), pinfo, tree, wanted) then
        guarded = true
      end
      if n and n > kept_limit then
        forget(n)
      end
      count = count + 1
      if head.info == last_name then
        run_counts[run] = run_counts[run] + 1
      else
        run, last_name = run + 1, head.info
        runs[run], run_counts[run] = last_name, 1
      end
      o = o + total
    end
  end
  if not visited and not late then
    local stop = synced and (whole or not first) and (first or o)
    local behind = c.seen[side]
    c.next[side] = stop and behind and (behind - reported + stop) % WORD or (stop and 0) or nil
  end
  if first and first < length then
    if whole and pinfo.can_desegment > 0 then
      pinfo.desegment_offset = first
      pinfo.desegment_len = asked or DESEGMENT_ONE_MORE_SEGMENT
    else
      skip(tvb, tree, first, length - first)
    end
  end
  if run > 0 then
    write_info(pinfo, visited and v.label or c.label, number, run, guarded)
  end
  return length
end
