---------------------------------------------------------------- packets: where messages start

-- What the other parts use; everything else is private to this one.
local locate

do
-- Whether place a of a TCP stream lies before place b.
local function before(a, b)
  return (a - b) % TCP_SPAN >= TCP_SPAN / 2
end

local LONGEST_START = 1048576 -- larger numbers are not relative to the connection's first byte
local HOLES_KEPT = 64 -- per side; a hostile capture must not fill the memory

-- Bytes up to a place were skipped by TCP. They may still come.
local function note_hole(lane, start, stop, next)
  local holes = lane.holes or {}
  if #holes >= HOLES_KEPT then
    table.remove(holes, 1)
  end
  holes[#holes + 1] = { start = start, stop = stop, next = next }
  lane.holes = holes
end

-- The hole that bytes from place `start` to `stop` lie in, which they fill; nil where all of them were seen before.
local function fill_hole(lane, start, stop)
  local holes = lane.holes
  for i = 1, holes and #holes or 0 do
    local hole = holes[i]
    if before(start, hole.stop) and before(hole.start, stop) then
      if before(stop, hole.stop) then
        holes[i] = { start = stop, stop = hole.stop }
      else
        table.remove(holes, i)
      end
      return hole
    end
  end
end

-- A packet that came late: its bytes were seen before, in which case TCP hands the same messages out once more and they
-- are passed over, or they fill a hole.
local function locate_late(lane, reported, offset, start, stop)
  if not lane.late then
    lane.late = fill_hole(lane, start, stop) or lane
  end
  local hole = lane.late
  if hole == lane then
    return reported, true
  elseif offset == 0 or not start then
    return hole.next and 0, true -- what TCP was asked for before the hole, and the rest of the packet after that
  end
  local ahead = hole.next and (hole.next - start) % TCP_SPAN
  return ahead and ahead < reported and ahead or nil, true
end

-- On the first pass: where in this tvb the next message starts (nil: that has to be searched for), and whether the
-- tvb came late, so that nothing about its order can be said. Fields of TCP are read once per packet: they are slow.
-- Of each side of a connection its lane is known: `next`, the place in the TCP stream where the next message starts;
-- `seen`, the place after the last byte that was seen; `unsure`, bytes were asked for that may be no header; `packet`,
-- the last one; `late`, what is known of it where it came late; `holes`, what was skipped; `cut`, a snap length cut the
-- last one.
function locate(c, lane, reported, tvb, number, offset)
  local next, seen = lane.next, lane.seen
  local rest = lane.packet == number
  if rest or offset == 0 then
    -- Goes on where the last one stopped: the rest of a packet, or bytes that were asked for.
    if not rest then
      local found = behind_field and behind_field()
      local after_seq = found and found()
      lane.packet, lane.late = number, nil
      if seen and after_seq and not before(seen, after_seq) then
        return locate_late(lane, reported, offset, seq_field()(), after_seq)
      end
      lane.seen = after_seq
    elseif lane.late then
      return locate_late(lane, reported, offset, nil, nil)
    end
    if lane.unsure then
      lane.unsure = nil
      return nil, false
    end
    return next and 0, false
  end
  local found = seq_field and seq_field()
  local cut = lane.cut
  lane.packet, lane.unsure, lane.late, lane.cut = number, nil, nil, nil
  if not found then
    return (next or starts(RAW(tvb))) and 0 or nil, false
  end
  local seq = found()
  local after_seq = (seq + reported) % TCP_SPAN
  if seen and before(seq, seen) and not before(seen, after_seq) then
    return locate_late(lane, reported, offset, seq, after_seq)
  end
  lane.seen = after_seq
  if not seen then
    -- After a SYN the first bytes are a header. Without one, or with bytes missing after it, they are to be confirmed.
    local found_state = Framing.completeness and Framing.completeness()
    c.lost = c.lost or (found_state and (found_state() % 4 == 0 or (seq > 1 and seq < LONGEST_START)))
    return starts(RAW(tvb)) and 0 or nil, false
  end
  local ahead = next and (next - seq) % TCP_SPAN
  if ahead and ahead < TCP_SPAN / 2 then
    return ahead, false -- also where the first bytes of the packet were seen before
  elseif before(seen, seq) then
    note_hole(lane, seen, seq, next)
  end
  c.lost = c.lost or seq ~= seen or cut -- the next message started in what a snap length cut off
  return nil, false
end

end
