---------------------------------------------------------------- what is remembered of a frame, in the tree

local couchbase_dissector

-- Wireshark takes 64-bit numbers as objects only.
local function generated_seqno(item, field, value)
  generated(item, field, UInt64.new(value % WORD, floor(value / WORD)))
end

local function show_state(item, c, side, head, n)
  local marker = snapshots[n]
  if marker then
    local stream = marker.stream
    if stream.request then
      generated(item, F.stream, stream.request)
    end
    if marker.stop then
      generated(item, F.snapshot, marker.number)
      generated_seqno(item, F.snapshot_start, marker.start)
      generated_seqno(item, F.snapshot_end, marker.stop)
    end
  end
  if previous_seqnos[n] then
    generated_seqno(item, F.previous_seqno, previous_seqnos[n])
  end
  if outstandings[n] then
    generated(item, F.outstanding, outstandings[n])
    if c.window and c.window > 0 and c.window < WORD then
      generated(item, F.window, c.window)
    end
  end
  local linked = links[n]
  if linked then
    if linked.response_in then
      generated(item, F.response_in, linked.response_in)
    end
    if linked.response_to then
      generated(item, F.response_to, linked.response_to)
      generated(item, F.response_time, linked.response_time)
    end
  end
  local list = verdicts[n]
  if list then
    for i = 1, #list, 3 do
      item:add_proto_expert_info(EXPERTS[list[i]], list[i] .. ": " .. list[i + 2])
    end
  end
end

-- The built-in dissector for what is not ours; its words in the Info column are not wanted.
local function hand_over(tvb, pinfo, tree)
  if couchbase_dissector == nil then
    local found, dissector = pcall(Dissector.get, "couchbase")
    couchbase_dissector = found and dissector or false
  end
  if couchbase_dissector then
    pcall(couchbase_dissector.call, couchbase_dissector, tvb, pinfo, tree)
  end
end
