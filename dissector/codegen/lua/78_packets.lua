---------------------------------------------------------------- packets: where messages start, the Info column

-- What the other parts use; everything else is private to this one.
local info_packet, locate, write_info, runs, run_counts

do
-- On the first pass: where in this tvb the next message starts (nil: that has to be searched for), and whether the
-- tvb came late, so that nothing about its order can be said. Fields of TCP are read once per packet: they are slow.
function locate(c, side, reported, s, number, offset)
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

-- The messages of a tvb as words, runs of the same one counted.
runs, run_counts = {}, {}
local counted = {} -- by name, words for its runs: most packets have one of few

local function words_of(name, times)
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

local function names_of(count)
  if count == 1 then
    return words_of(runs[1], run_counts[1])
  end
  local parts = {}
  for i = 1, count do
    parts[i] = words_of(runs[i], run_counts[i])
  end
  return concat(parts, ", ")
end

-- One packet may come as several tvbs, each of which adds its words. `guarded`: other dissectors were called, which
-- write there too.
function write_info(pinfo, label, number, count, guarded)
  local columns, words = pinfo.cols, names_of(count)
  if info_packet ~= number then
    columns.protocol, columns.info = label, words
  else
    columns.info:append(", " .. words)
  end
  if guarded then
    columns.info:fence()
  end
  info_packet = number
end

end
