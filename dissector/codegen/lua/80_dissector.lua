---------------------------------------------------------------- packets

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

local DIALECT_NAMES = { "dcp", "upr", "draft", "upr-proto" }
local checks, beside = true, false
local self_dissector
local places = {} -- by packet and tvb, where messages start, when that is not plainly at its first byte
local ordinals = {} -- by packet and tvb, the ordinal of its first frame
local packet = {} -- what is known of the packet in hand
local info_packet -- whose Info column was written last

local function skip(tvb, tree, o, size)
  local item = tree:add(F.unsynced, tvb(o, size))
  item:add_proto_expert_info(EXPERTS.unsynced)
end

-- On the first pass: where in this tvb the next message starts (nil: that has to be searched for), and whether the
-- tvb came late, so that nothing about its order can be said. Fields of TCP are read once per packet: they are slow.
local function locate(c, side, reported, s, number, offset)
  local next, seen = c.next[side], c.seen[side]
  if c.packet[side] == number or offset == 0 then
    -- Goes on where the last one stopped: the rest of a packet, or bytes that were asked for.
    if c.packet[side] ~= number then
      local found = behind_field and behind_field()
      c.packet[side], c.seen[side] = number, found and found.value
    end
    local unsure = c.unsure[side]
    c.unsure[side] = nil
    return next and not unsure and 0 or nil, false
  end
  local found = seq_field and seq_field()
  c.packet[side], c.unsure[side] = number, nil
  if not found then
    return (next or starts(s)) and 0 or nil, false
  end
  local seq = found.value
  if seen and (seq - seen) % WORD >= WORD / 2 then
    return nil, true
  end
  c.seen[side] = (seq + reported) % WORD
  if not seen then
    return starts(s) and 0 or nil, false -- behind a SYN the first bytes are a header
  end
  local ahead = next and (next - seq) % WORD
  if ahead and ahead < WORD / 2 then
    return ahead, false
  end
  c.lost = c.lost or seq ~= seen
  return nil, false
end

-- The messages of a packet as words, runs of the same one counted.
local runs, run_counts = {}, {}

local function names_of(count)
  if count == 1 then
    return run_counts[1] > 1 and runs[1] .. format(" x%d", run_counts[1]) or runs[1]
  end
  local parts = {}
  for i = 1, count do
    parts[i] = run_counts[i] > 1 and runs[i] .. format(" x%d", run_counts[i]) or runs[i]
  end
  return concat(parts, ", ")
end

local function write_info(pinfo, c, number, offset, count, guarded)
  local columns = pinfo.cols
  local info = columns.info
  if info_packet == number and offset ~= 0 then
    info:append(", " .. names_of(count))
  else
    columns.protocol = c.label
    info:set(names_of(count))
  end
  if guarded then
    info:fence() -- other dissectors were called
  end
  info_packet = number
end

-- A frame whose head is not known yet, or tells something about its connection.
local function meet(c, side, s, o, body, visited)
  local head = c.heads[sub(s, o + 1, o + 8)] or head_at(c.heads, c.dialect, s, o + 1, body)
  if not visited and head.telling and (not c.settled or head.opcode == HELLO) and feed(c, side, head, s, o + 1, body) then
    head = c.heads[sub(s, o + 1, o + 8)] or head_at(c.heads, c.dialect, s, o + 1, body)
  end
  return head
end

function upr.dissector(tvb, pinfo, tree)
  local length = tvb:len()
  if length == 0 then
    return 0
  end
  local reported = tvb:reported_len()
  local whole = reported == length
  local number, visited, offset = pinfo.number, pinfo.visited, tvb:offset()
  -- Asking Wireshark is what takes the time: what is the same for all of a packet is asked for once.
  if number ~= packet.number or offset == packet.offset then
    packet.number, packet.offset, packet.c = number, offset, connection_of(pinfo)
    packet.side, packet.wanted = side_of(packet.c, pinfo), tree:referenced(self_dissector)
  end
  local c, side, wanted = packet.c, packet.side, packet.wanted
  local s = tvb:raw(0, length)
  local o, late, ordinal, key
  if visited or wanted or checks then
    key = number * 262144 + offset
    ordinal = ordinals[key]
  end
  if visited then
    local place = places[key]
    if place then
      o, late = place[1], place[2]
    else
      o = 0
    end
  else
    o, late = locate(c, side, reported, s, number, offset)
    if o ~= 0 or late then
      places[key or number * 262144 + offset] = { o, late }
    end
  end
  local tracking = not visited and not late
  if tracking and c.lost then
    lose(c, side)
    c.lost = nil
  end
  local count, run, asked, first, guarded = 0, 0, false, nil, wanted
  local last_name
  local synced = o ~= nil
  o = o or 0
  while o < length do
    local head = synced and c.heads[sub(s, o + 1, o + 8)]
    local b1, b2, b3, b4 = byte(s, o + 9, o + 12)
    local total = b4 and ((b1 * 256 + b2) * 256 + b3) * 256 + b4 + HEADER
    if not head or not total or total > length - o or (head.telling and (not c.settled or head.hello)) then
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
        head = meet(c, side, s, o, total - HEADER, visited)
      else
        total = nil
      end
      if not synced then
        local found, maybe = search(s, o + 1 + (total and 1 or 0), not whole)
        local stop = found and found - 1 or maybe and maybe - 1 or length
        if stop > o then
          skip(tvb, tree, o, stop - o)
          if tracking then
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
      local have = min(total, length - o)
      local n
      if checks then
        if not visited then
          n = track(c, side, head, s, o + 1, total - HEADER, have, number, pinfo, late)
          if not ordinal then
            ordinal = n
            ordinals[key] = n
          end
        elseif ordinal then
          n = ordinal + count
        end
      end
      if wanted or head.refused or (n and verdicts[n]) then
        guarded = true
        local item = show(tree, tvb, pinfo, o, head, s, c, side, total - HEADER, have)
        if n then
          show_state(item, c, side, head, n)
        end
        if beside or not head.upr then
          hand_over(tvb(o, have):tvb(), pinfo, tree)
        end
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
  if tracking then
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
    write_info(pinfo, c, number, offset, run, guarded)
  end
  return length
end
