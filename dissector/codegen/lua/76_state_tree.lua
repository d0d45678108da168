---------------------------------------------------------------- what is remembered of a frame, in the tree

-- What the other parts use; everything else is private to this one.
local show_state, hand_over

do
local couchbase_dissector
local marker_shown, window_shown -- of the packet in hand

-- What is remembered as a double is exact up to here; the message that said a larger number shows it.
local EXACT = 9007199254740992.0

local function show_seqno(item, field, seqno)
  if seqno < EXACT then
    generated(item, field, object_of(seqno))
  end
end

local function show_links(item, linked)
  if linked.response_in then
    generated(item, F.response_in, linked.response_in)
  end
  if linked.response_to then
    generated(item, F.response_to, linked.response_to)
    generated(item, F.response_time, linked.response_time)
  end
end

-- What is remembered of frame n, on a connection that was like v. What is the same for several frames of a packet is
-- shown with the first of them: filters find packets, and every line takes its time. `fresh`: a packet begins.
function show_state(item, v, n, fresh)
  if fresh then
    marker_shown, window_shown = nil, nil
  end
  local marker = snapshots[n]
  if marker and marker ~= marker_shown then
    marker_shown = marker
    local request = marker.stream.request
    if request then
      generated(item, F.stream, request)
    end
    if marker.stop then
      generated(item, F.snapshot, marker.number)
      show_seqno(item, F.snapshot_start, marker.start)
      show_seqno(item, F.snapshot_end, marker.stop)
    end
  end
  local previous = previous_seqnos[n]
  if previous then
    show_seqno(item, F.previous_seqno, previous)
  end
  local outstanding = outstandings[n]
  if outstanding then
    generated(item, F.outstanding, outstanding)
    local window = v.window
    if window ~= window_shown and window and window > 0 and window < WORD then
      generated(item, F.window, window)
      window_shown = window
    end
  end
  if links[n] then
    show_links(item, links[n])
  end
  local list = verdicts[n]
  if list then
    for i = 1, #list, 3 do
      item:add_proto_expert_info(EXPERTS[list[i]], list[i] .. ": " .. list[i + 2])
    end
  end
end

-- The built-in dissector for what is not ours, where anybody asks for its fields or for ours; its words in the Info
-- column are not wanted.
function hand_over(range, pinfo, tree, wanted)
  if couchbase_dissector == nil then
    local found, dissector = pcall(Dissector.get, "couchbase")
    couchbase_dissector = found and dissector or false
  end
  if couchbase_dissector and (wanted or tree:referenced(couchbase_dissector)) then
    pcall(couchbase_dissector.call, couchbase_dissector, range:tvb(), pinfo, tree)
    return true
  end
  return false
end

end
