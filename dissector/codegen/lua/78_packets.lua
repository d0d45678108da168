---------------------------------------------------------------- packets: where messages start, the Info column

-- What the other parts use; everything else is private to this one.
local info_packet, locate, words_of, names_of, write_info, runs, run_counts

do
-- On the first pass: where in this tvb the next message starts (nil: that has to be searched for), and whether the
-- tvb came late, so that nothing about its order can be said. Fields of TCP are read once per packet: they are slow.
-- Of each side of a connection its lane is known: `next`, the place in the TCP stream where the next message starts;
-- `seen`, the place behind the last byte that was seen; `unsure`, bytes were asked for that may be no header; `packet`,
-- the last one.
function locate(c, lane, reported, s, number, offset)
  local next = lane.next
  if lane.packet == number or offset == 0 then
    -- Goes on where the last one stopped: the rest of a packet, or bytes that were asked for.
    if lane.packet ~= number then
      local found = behind_field and behind_field()
      lane.packet, lane.seen = number, found and found()
    end
    if lane.unsure then
      lane.unsure = nil
      return nil, false
    end
    return next and 0, false
  end
  local found, seen = seq_field and seq_field(), lane.seen
  lane.packet, lane.unsure = number, nil
  if not found then
    return (next or starts(s)) and 0 or nil, false
  end
  local seq = found()
  if seen and (seq - seen) % TCP_SPAN >= TCP_SPAN / 2 then
    return nil, true
  end
  lane.seen = (seq + reported) % TCP_SPAN
  if not seen then
    return starts(s) and 0 or nil, false -- behind a SYN the first bytes are a header
  end
  local ahead = next and (next - seq) % TCP_SPAN
  if ahead and ahead < TCP_SPAN / 2 then
    return ahead, false
  end
  c.lost = c.lost or seq ~= seen
  return nil, false
end

-- The messages of a tvb as words, runs of the same one counted.
runs, run_counts = {}, {}
local counted = {} -- by name, words for its runs: most packets have one of few

function words_of(name, times)
  if times == 1 then
    return name
  end
  local known = counted[name]
  if not known then
    known = {}
    counted[name] = known
  end
  local words = known[times]
  if not words then
    words = name .. format(" x%d", times)
    if times < 100 then
      known[times] = words
    end
  end
  return words
end

function names_of(count)
  if count == 1 then
    return words_of(runs[1], run_counts[1])
  end
  local parts = {}
  for i = 1, count do
    parts[i] = words_of(runs[i], run_counts[i])
  end
  return concat(parts, ", ")
end

local info_column -- of the packet in hand
local COLUMNS, SET, APPEND -- looked up once

-- One packet may come as several tvbs, each of which adds its words. `guarded`: other dissectors were called, which
-- write there too.
function write_info(pinfo, label, number, words, guarded)
  -- A column lives as long as the packet is looked at, which may be anew.
  if info_packet ~= number or not pcall(APPEND, info_column, ", " .. words) then
    COLUMNS = COLUMNS or getter_of(pinfo, "cols")
    local columns = COLUMNS(pinfo)
    columns.protocol = label
    info_column = columns.info
    SET = SET or info_column.set
    SET(info_column, words)
    APPEND, info_packet = APPEND or info_column.append, number
  end
  if guarded then
    info_column:fence()
  end
end

end
