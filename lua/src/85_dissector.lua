---------------------------------------------------------------- the dissector

do
local LENGTH, REPORTED, OFFSET -- methods, looked up once
local NUMBER, CAN_DESEGMENT, SET_OFFSET, SET_LENGTH -- attributes

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

-- TCP is to call again when there are so many bytes more after an offset.
local function ask_for(pinfo, offset, size)
  if SET_LENGTH then
    SET_OFFSET(pinfo, offset)
    SET_LENGTH(pinfo, size)
  else
    SET_OFFSET, SET_LENGTH = setter_of(pinfo, "desegment_offset", offset), setter_of(pinfo, "desegment_len", size)
  end
end

-- The first frame that later passes will know nothing more about.
local function say_kept(tree, number)
  forgetful = number
  local words = format("Behind %.0f frames, later passes show only what a frame itself says", kept_limit)
  tree:add_proto_expert_info(EXPERTS.kept, words)
end

-- The line of the frame at offset o, which a run begins with: it is whole, and s has its first bytes.
local function tell_first(c, kind, tvb, o, s)
  if kind.keyed or kind.bare then
    Info.tell_quick(kind, s, c.collections)
  else
    local body, heads = u32(byte(s, 9, 12)), c.heads
    local head = heads[sub(s, 1, 8)] or head_at(heads, c.dialect, s, 1, body)
    Info.tell(label_of(head, RAW(tvb, o, HEADER + body), 1, body, HEADER + body, c.collections))
  end
end

-- A message in the tree, with what is known of its connection and what is wrong with it.
local function present(tvb, pinfo, tree, s, o, head, v, side, body, have, sound, n)
  local title = TITLE
  if not chosen then
    title = TITLE .. ", " .. label_of(head, s, o + 1, body, have, v.collections, n and links[n] and links[n].vbucket)
  end
  local places = (packet_notes or (n and checks and verdicts[n])) and {}
  if places then
    record_places(places)
  end
  local first = not packet_shown
  local item = show(tree, tvb, pinfo, o, head, s, v, side, body, have, first, sound, title)
  packet_shown = true
  if n and checks then
    if not chosen or chosen.of_state then
      Shown.state(item, v, n, first)
    end
  end
  if places then
    record_places()
    Shown.verdicts(item, places, n and checks and n, packet_notes, packet_notes and message_of(head, s, o + 1, body, have, v.collections))
  end
end

-- Where the packet is over: comments about messages that are not in it as Wireshark has it are shown with the packet.
local function show_rest(tree, number, offset, ends)
  if ends then
    Notes.over[number] = true
  end
  for _, note in ipairs(packet_notes) do
    if not note.shown and (offset > 0 or Notes.over[number]) then
      Shown.annotation(note.item or tree, note.places or {}, note)
    end
  end
end

-- A tvb frame by frame. Where it was located, o is where its first frame is, or lies after `count` frames that were
-- taken before.
local function dissect(tvb, pinfo, tree, number, offset, located, o, late, count)
  local s = RAW(tvb)
  local length, reported = #s, REPORTED(tvb)
  local whole = reported == length
  local c, side, lane, wanted, visited = packet_c, packet_side, packet_lane, packet_wanted, packet_seen
  local ordinal, plainly, v, v_until -- what the connection is like, and up to which frame
  local begun = lane.next
  if visited then
    local place = places[number * PLACES + offset]
    o = 0
    if place then
      o, late = place[1], place[2]
    end
    ordinal = ordinal_of(number, offset, o or 0)
    v, v_until = version_at(c, ordinal or tracked)
    if number == forgetful then
      say_kept(tree, number)
    end
  else
    if not located then
      o, late = locate(c, lane, reported, tvb, number, offset)
    end
    if (count == 0 and o ~= 0 or late) and not packet_blind then
      places[number * PLACES + offset] = { o, late }
    end
    if not late and c.lost then
      lose(c, side, true)
      c.lost = nil
    end
    plainly = packet_plain and o and not late and tracked + length < kept_limit
  end
  local asked, first = false, nil
  local known = visited and v.heads or c.heads
  local synced = o ~= nil
  if count > 0 then
    ordinal = tracked - count + 1
  end
  o = o or 0
  while o < length do
    while plainly do
      local stop, taken, kind, rest, text
      if checks then
        stop, taken, kind, rest, text = follow(c, side, tvb, o, length, tracked)
      else
        stop, taken, kind, rest, text = skim(c, tvb, o, length)
      end
      if taken > 0 then
        if not ordinal then
          ordinal = tracked + 1
          keep_ordinal(number, offset, o, ordinal)
        end
        if Info.count(kind.info, taken) then
          tell_first(c, kind, tvb, o, text)
        end
        tracked, count, o = tracked + taken, count + taken, stop
      end
      if rest ~= true then
        break
      end
    end
    if o == length then
      break
    end
    if visited then
      local fresh = not ordinal and ordinal_of(number, offset, o)
      ordinal = fresh and fresh - count or ordinal
      if fresh or (ordinal and ordinal + count >= v_until) then
        v, v_until = version_at(c, ordinal + count)
        known = v.heads
      end
    end
    local b1, b2, b3, b4 = byte(s, o + 9, o + 12)
    local total = b4 and ((b1 * 256 + b2) * 256 + b3) * 256 + b4 + HEADER
    local head = synced and total and total <= length - o and known[sub(s, o + 1, o + 8)]
    if not head or head.tell > c.level then
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
          first, lane.unsure = maybe and o or nil, maybe and true or nil
          break
        end
        synced = true
      end
    end
    if head then
      local have, body, n, quick = min(total, length - o), total - HEADER, nil, false
      if visited then
        n = ordinal and ordinal + count
      elseif packet_blind then
        if c.changed then
          note_version(c, tracked)
        end
        v = c.now
      else
        n = tracked + 1
        if not ordinal then
          ordinal = n
          if n <= kept_limit then
            keep_ordinal(number, offset, o, n)
          end
        end
        if n == kept_limit + 1 then
          say_kept(tree, number)
        end
        if checks and head.quick and not late and have == total then
          local _, taken = follow(c, side, tvb, o, o + total, tracked)
          quick = taken > 0
        end
        tracked = n
        if have < total and o + total < reported then
          c.searched[side] = n -- a snap length leaves open whether the next one starts where this one should end
        end
        if checks and not quick then
          track(c, side, head, s, o + 1, body, have, n, number, pinfo, late)
        end
        if c.changed then
          note_version(c, n)
        end
        v = c.now
      end
      if wanted or head.refused or packet_notes or (n and verdicts[n]) then
        present(tvb, pinfo, tree, s, o, head, v, side, body, have, quick, n)
      end
      -- Wireshark 4.0 leaves Lua's stack for good where a dissector runs out of bytes.
      if (beside or not head.upr) and have == total then
        Shown.beside(RANGE(tvb, o, have), pinfo, tree, wanted)
      end
      if Info.count(head.info, 1) then
        Info.tell(label_of(head, s, o + 1, body, have, v.collections, n and links[n] and links[n].vbucket))
      end
      if n and n > kept_limit then
        forget(n)
      end
      count, o = count + 1, o + total
    end
  end
  if not visited and not late then
    local stop = synced and (whole or not first) and (first or o)
    local after_seq = lane.seen
    lane.next = stop and after_seq and (after_seq - reported + stop) % TCP_SPAN or (stop and 0) or nil
    lane.cut = not whole
  end
  if first and first < length then
    if whole and CAN_DESEGMENT(pinfo) > 0 then
      ask_for(pinfo, first, asked or DESEGMENT_ONE_MORE_SEGMENT)
    else
      skip(tvb, tree, first, length - first)
      if not whole and not visited and not late then
        lose(c, side, true)
      end
    end
  end
  Info.write(pinfo, visited and v.label or c.label)
  if packet_notes then
    show_rest(tree, number, offset, not visited and begun and lane.seen and (begun + reported - lane.seen) % TCP_SPAN == 0)
  end
  return length
end

function upr.dissector(tvb, pinfo, tree)
  if not RAW then
    RAW, RANGE, LENGTH, REPORTED, OFFSET = tvb.raw, tvb.range, tvb.len, tvb.reported_len, tvb.offset
    NUMBER, CAN_DESEGMENT = getter_of(pinfo, "number"), getter_of(pinfo, "can_desegment")
  end
  local number, offset = NUMBER(pinfo), OFFSET(tvb)
  if number ~= packet_number or offset == packet_offset then
    take_packet(number, offset, pinfo, tree)
  end
  local length = LENGTH(tvb)
  if not packet_plain or tracked + length >= kept_limit or (offset > 0 and REPORTED(tvb) ~= length) then
    return dissect(tvb, pinfo, tree, number, offset, false, 0, nil, 0)
  end
  -- It is not shown, and it is whole. Mostly it is nothing but frames in order, up to its end or to one that goes on in
  -- the next packet.
  local c, lane = packet_c, packet_lane
  local o, late = locate(c, lane, length, tvb, number, offset)
  if o ~= 0 or late or c.lost then
    return dissect(tvb, pinfo, tree, number, offset, true, o, late, 0)
  end
  local times, kind, rest, text
  local begun = lane.next
  if checks then
    o, times, kind, rest, text = follow(c, packet_side, tvb, 0, length, tracked)
  else
    o, times, kind, rest, text = skim(c, tvb, 0, length)
  end
  if times > 0 then
    if keeping then
      keep_ordinal(number, offset, 0, tracked + 1)
    end
    tracked = tracked + times
    if Info.count(kind.info, times) then
      tell_first(c, kind, tvb, 0, text)
    end
  end
  if not rest or rest == true or (rest > 0 and CAN_DESEGMENT(pinfo) <= 0) then
    return dissect(tvb, pinfo, tree, number, offset, true, o, false, times)
  end
  local seen = lane.seen
  lane.next = seen and (seen - length + o) % TCP_SPAN or 0
  if rest > 0 then
    ask_for(pinfo, o, rest)
  end
  -- What TCP put together ends where the packet goes on.
  Info.write(pinfo, c.label, offset == 0 and rest == 0 and begun and seen and (begun + length - seen) % TCP_SPAN ~= 0)
  return length
end

end
