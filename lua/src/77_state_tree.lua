---------------------------------------------------------------- what is remembered of a frame, in the tree

-- What the other parts use; everything else is private to this one.
local Shown = {}

do
local couchbase_dissector

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

-- Up to 4.2, tshark makes every field of every packet, whatever it prints. So there what is the same for several messages
-- of a packet is shown with the first of them. `fresh`: a packet begins.
local SPARING = _VERSION < "Lua 5.3"
local marker_before, window_before

-- What is remembered of frame n, on a connection that was like v.
function Shown.state(item, v, n, fresh)
  local marker = snapshots[n]
  local sparing = SPARING and not in_window and not fresh
  if marker and not (sparing and marker == marker_before) then
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
    if window and window > 0 and window < WORD and not (sparing and window == window_before) then
      generated(item, F.window, window)
    end
    window_before = window
  end
  marker_before = marker
  if links[n] then
    show_links(item, links[n])
  end
end

---------------------------------------------------------------- what is wrong

-- An expert item hangs on the field that is wrong, where the message has it: `places` knows the items of its fields.
local function place_of(item, places, rule, field)
  local found = field and places[F[field]]
  for _, name in ipairs(found and {} or RULE_BY_ID[rule].fields) do
    found = found or (F[name] and places[F[name]])
  end
  return found or item
end

local function show_finding(item, places, rule, severity, words, field)
  place_of(item, places, rule, field):add_proto_expert_info(EXPERTS[rule], words)
  generated(item, F.rule, rule)
  generated(item, F.severity, severity)
end

-- What the comments of a packet say about one of its messages. Others of the finding's packets are links.
function Shown.annotation(item, places, note)
  note.shown = true
  local words = format("%s: %s", note.rule, note.sentence)
  if note.guilty then
    show_finding(item, places, note.rule, note.severity, words)
  else
    item:add_proto_expert_info(EXPERTS.evidence, format("Proves %s (%s): %s", note.rule, note.role, note.sentence))
  end
  generated(item, F.finding, note.finding)
  for _, packet in ipairs(note.packets) do
    generated(item, F.evidence, packet)
  end
end

local function has_verdict(list, rule)
  for i = 1, list and #list or 0, 4 do
    if list[i] == rule then
      return true
    end
  end
  return false
end

-- What is wrong with frame n, which is the message that annotations call `message`. What they say, they say in more words
-- than we have, so it is not said twice. A packet may hold twins, such as a change that was sent twice: a finding of a rule
-- that we check ourselves belongs to the one that we find guilty, too.
function Shown.verdicts(item, places, n, notes, message)
  local list, told = n and verdicts[n], {}
  for _, note in ipairs(notes or {}) do
    if note.message == message and not note.shown and not (note.guilty and told[note.rule]) then
      if note.guilty and RULE_BY_ID[note.rule].checked and not has_verdict(list, note.rule) then
        note.item, note.places = note.item or item, note.places or places
      else
        Shown.annotation(item, places, note)
        told[note.rule] = note.guilty or told[note.rule]
      end
    end
  end
  for i = 1, list and #list or 0, 4 do
    if not told[list[i]] then
      show_finding(item, places, list[i], list[i + 1], list[i] .. ": " .. list[i + 2], list[i + 3])
    end
  end
end

-- The built-in dissector for what is not ours, where anybody asks for its fields or for ours; its words in the Info
-- column are not wanted.
function Shown.beside(range, pinfo, tree, wanted)
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
