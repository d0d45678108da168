---------------------------------------------------------------- what is remembered of frames, for every later pass

-- What the other parts use; everything else is private to this one.
local tracked, verdicts, snapshots, previous_seqnos, outstandings, links, keys_kept, lose, unsynced, track, inspect

do
-- Frames get ordinals as they come on the first pass; what is to be shown of one later is kept by its ordinal.

local KEPT_FRAMES = 8000000
tracked = 0
verdicts = {} -- ordinal to a list: rule, severity, sentence, rule, ...
snapshots = {} -- ordinal to the marker in force, or to the stream where there is none
previous_seqnos, outstandings, links = {}, {}, {}

local RULE_BY_ID = {}
for _, rule in ipairs(RULES) do
  RULE_BY_ID[rule.id] = rule
end

local function blame(n, rule, sentence, severity)
  local list = verdicts[n]
  if not RULE_BY_ID[rule] or n > KEPT_FRAMES then
    return
  elseif not list then
    list = {}
    verdicts[n] = list
  end
  local size = #list
  list[size + 1], list[size + 2], list[size + 3] = rule, severity or false, sentence
end

---------------------------------------------------------------- losses

local function prepare_state(c)
  if not c.waiting then
    c.waiting, c.waiting_count, c.answered, c.answered_count = {}, 0, {}, 0
    c.streams, c.opaques, c.agreed, c.orphans = { {}, {} }, {}, {}, {}
    c.stream_list = {}
    c.sent, c.returned, c.outstanding, c.noops, c.noops_before = 0, 0, 0, 0, 0
    c.largest, c.sluggish_until, c.sluggish_bytes = 0, -1, 0
  end
end

-- Bytes of a side are missing before the next frame: nothing that was expected of it holds any more.
function lose(c, side)
  c.doubt[side] = tracked + 1
  c.damaged = true
end

-- Bytes were skipped. Where none are missing, they are a fault of the frame before them (few) or of the next (many).
function unsynced(c, side, size)
  c.unsynced = c.unsynced + size
  if not c.damaged and c.last and c.last[side] and c.opened then
    if size < HEADER then
      blame(c.last[side], "FRM-01", format("%d bytes lie between this frame and the next, too few for a frame", size))
    else
      c.blame_next = c.blame_next or {}
      c.blame_next[side] = size
    end
  end
  lose(c, side)
end

---------------------------------------------------------------- FRM: what is wrong with single frames

local function maybe_newer(c)
  return c.hello_granted or c.since >= 500
end

local function blame_defects(c, head, n)
  if c.damaged or (not c.opened and c.dialect ~= "draft") then
    return
  end
  local done = {}
  for i = 1, R.flaws do
    local id = R.defects[i]
    local spec = DEFECTS[id]
    local rule, odd = spec.rule, spec.severity == "warning"
    if rule == "FRM-14" and not (head.name == "cache_transfer" and not head.response) then
      rule = "FRM-05"
    end
    if rule and spec.severity ~= "note" and not done[rule .. spec.severity] then
      done[rule .. spec.severity] = true
      local doubtful = (rule == "FRM-08" and id == "unknown-flag-bits" and maybe_newer(c))
        or (rule == "FRM-09" and not c.agreed.hello_collections)
        or (rule == "FRM-10" and c.agreed.open_no_value_with_underlying_datatype)
      if not doubtful then
        blame(n, rule, head.name .. ": " .. spec.title .. (R.details[i] ~= "" and " (" .. R.details[i] .. ")" or ""), odd and "warning" or nil)
      end
    end
  end
end

-- Rules about single frames that no defect stands for.
local function blame_oddities(c, head, n, s, p)
  if head.flexible and not head.drafted and c.opened and not c.damaged and not c.hello_granted and not c.agreed.enable_stream_id then
    blame(n, "FRM-02", "flexible framing without HELLO and without stream ids: of servers before 6.5")
  end
  if head.opcode == SNAPSHOT_MARKER and not head.response and head.extras == 1 and c.opened then
    local version = field_value(s, p, "marker_version")
    if (version == 0 and R.value ~= 36) or (version == 2 and R.value ~= 52) then
      blame(n, "FRM-11", format("a marker of version %d with a value of %d bytes", version, R.value))
    end
  end
  if R.nmeta > 0 and c.since >= 500 and c.opened and not c.damaged and not c.agreed.enable_ext_metadata then
    blame(n, "FRM-12", format("nmeta %d, from a server of 5.0 or later, where it is 0", R.nmeta))
  end
  if (head.opcode == STREAM_REQUEST or head.opcode == ADD_STREAM) and not head.response and c.dialect == "dcp" and c.opened then
    local flags = field_value(s, p, "stream_flags")
    if flags and flags >= 512 and not maybe_newer(c) then
      blame(n, "FRM-08", format("stream flags 0x%x, of which some have no name", floor(flags)))
    end
  end
end

---------------------------------------------------------------- questions and answers

-- Requests whose answer is owed.
local OWED = {
  [OPEN] = true, [ADD_STREAM] = true, [CLOSE_STREAM] = true, [STREAM_REQUEST] = true, [FAILOVER_LOG] = true,
  [VBUCKET_STATE] = true, [NOOP] = true, [CONTROL] = true, [SNAPSHOT_MARKER] = true,
}
-- Messages that nobody answers, except to refuse them.
local SILENT = { [BUFFER_ACK] = true }
for _, name in ipairs({
  "mutation", "deletion", "expiration", "system_event", "prepare", "seqno_acknowledged", "commit", "abort",
  "seqno_advanced", "oso_snapshot", "cache_transfer", "cache_transfer_end",
}) do
  SILENT[OPCODE[name]] = true
end

local function question_key(side, opcode, opaque)
  return (side * 256 + opcode) * WORD + opaque
end

local function link(asked, n, number, time)
  links[asked.n] = links[asked.n] or {}
  links[asked.n].response_in = number
  links[n] = { response_to = asked.number, response_time = (time - asked.time) * 1000 }
end

local function agree(c, asked, s, p, body, head)
  if asked.opcode == HELLO then
    local first = p + HEADER + head.framing + head.extras + head.key
    for at = first, p + HEADER + body - 2, 2 do
      local name = NAMES["HELLO feature"][number_at(s, at, 2)]
      if name then
        c.agreed["hello_" .. name] = true
        c.hello_granted = c.hello_granted or name == "xattr" or name == "snappy" or name == "json" or name == "collections"
      end
    end
  elseif asked.opcode == OPEN then
    for _, each in ipairs(FLAGS["open flags"].bits) do
      if floor((asked.flags or 0) / each[1]) % 2 == 1 then
        c.agreed["open_" .. each[2]] = true
      end
    end
  elseif asked.opcode == CONTROL then
    local key, value = asked.key, asked.value
    if key == "connection_buffer_size" then
      local size = find(value, "^%d+$") and min(tonumber(sub(value, 1, 18)), 2 ^ 60) or 0
      if (c.window or -1) <= 0 or size <= 0 then
        c.outstanding, c.sluggish_until, c.sluggish_bytes = 0, -1, 0
      end
      c.window = size
    elseif CONTROLS[key] then
      c.agreed[key] = value ~= "false" or nil
      c.agreed_since = max(c.agreed_since or 0, value ~= "false" and CONTROLS[key].since or 0)
    end
  end
end

local function at_least(c, since)
  return c.since >= since or (c.agreed_since or 0) >= since
end

local begin_stream, close_stream -- see below

local function paired(c, side, asked, head, s, p, body, n, number, time)
  link(asked, n, number, time)
  local key = question_key(asked.side, asked.opcode, asked.opaque)
  if c.answered_count < REMEMBERED then
    c.answered[key], c.answered_count = true, c.answered_count + 1
  end
  if head.status ~= 0 then
    return
  elseif asked.opcode == STREAM_REQUEST then
    begin_stream(c, side, asked, n)
  elseif asked.opcode == CLOSE_STREAM then
    close_stream(c, asked)
  else
    agree(c, asked, s, p, body, head)
  end
end

local function take_question(c, side, head, s, p, body, n, number, time)
  local opcode, opaque = head.opcode, number_at(s, p + 12, 4)
  local asked = {
    opcode = opcode, opaque = opaque, side = side, n = n, number = number, time = time, vbucket = head.number,
    stream_id = field_value(s, p, "stream_id") or 0,
  }
  if opcode == OPEN then
    c.opened = c.opened or n
    asked.flags = field_value(s, p, "open_flags")
    if R.value_at <= HEADER + body and R.key > 0 then
      c.name = sub(s, p + R.key_at, p + R.value_at - 1)
    end
    learn_role(c, side, head, s, p)
    if asked.flags and floor(asked.flags / LIMITS.delete_times) % 2 == 1 then
      c.since = max(c.since, LIMITS.delete_times_since)
    end
  elseif opcode == CONTROL then
    asked.key = sub(s, p + R.key_at, p + R.value_at - 1)
    asked.value = sub(s, p + R.value_at, p + HEADER + body - 1)
    if asked.key == "connection_buffer_size" then
      c.window_asked = (c.window_asked or 0) + 1
    end
  elseif opcode == STREAM_REQUEST then
    asked.start, asked.flags = field_value(s, p, "start_seqno"), field_value(s, p, "stream_flags") or 0
    local text = sub(s, p + R.value_at, p + HEADER + body - 1)
    asked.stream_id = tonumber(text:match('"sid"%s*:%s*(%d+)') or 0)
  end
  local key = question_key(side, opcode, opaque)
  for i, orphan in ipairs(c.orphans) do
    if orphan.key == key then -- only the capture has them the wrong way round
      table.remove(c.orphans, i)
      link(asked, orphan.n, orphan.number, orphan.time)
      return
    end
  end
  local queue = c.waiting[key]
  if c.waiting_count < REMEMBERED then
    c.waiting_count = c.waiting_count + 1
    if queue then
      queue[#queue + 1] = asked
    else
      c.waiting[key] = { asked }
    end
  end
end

-- Answers to nothing are only wrong once everything that their sender had heard has been seen.
local function settle_orphans(c, side)
  local seen = c.seen[side]
  for i = #c.orphans, 1, -1 do
    local orphan = c.orphans[i]
    if orphan.side ~= side and (not seen or (seen - orphan.acked) % WORD < WORD / 2) then
      table.remove(c.orphans, i)
      if not c.damaged and c.opened then
        blame(orphan.n, "OPQ-01", "an answer to no request of the other side")
      end
    end
  end
end

local function take_answer(c, side, head, s, p, body, n, number, time)
  local opcode, opaque = head.opcode, number_at(s, p + 12, 4)
  local key = question_key(3 - side, opcode, opaque)
  local queue = c.waiting[key]
  if queue then
    local asked = table.remove(queue, 1)
    c.waiting_count = c.waiting_count - 1
    if #queue == 0 then
      c.waiting[key] = nil
    end
    paired(c, side, asked, head, s, p, body, n, number, time)
    return
  end
  if not head.upr then
    return
  end
  local early = c.dialect == "upr"
  if not OWED[opcode] or opcode == SNAPSHOT_MARKER then
    if head.status == 0 and SILENT[opcode] and not early then
      blame(n, "OPQ-03", head.name .. " answered with success; such messages are not answered")
    end
    return
  end
  if c.answered[key] then
    if c.opened and not c.damaged then
      blame(n, "OPQ-01", format("a second %s response with opaque 0x%08x", head.name, opaque))
    end
  else
    local found = ack_field and ack_field()
    local acked, seen = found and found.value, c.seen[3 - side]
    if acked and seen and (acked - seen) % WORD > 0 and (acked - seen) % WORD < WORD / 2 and #c.orphans < REMEMBERED then
      c.orphans[#c.orphans + 1] = { key = key, side = side, n = n, number = number, time = time, acked = acked }
    elseif c.opened and not c.damaged then
      blame(n, "OPQ-01", format("a %s response with opaque 0x%08x, which no request of the other side had", head.name, opaque))
    end
  end
  if opcode == STREAM_REQUEST and head.status == 0 then
    lose(c, side) -- a stream begins, and nobody knows which
  end
end

---------------------------------------------------------------- streams

local TAKEOVER, ACTIVE_ONLY, FROM_LATEST = 0x01, 0x10, 0x40
local MEMORY, DISK, ACKNOWLEDGE, HISTORY, DUPLICATES = 0x01, 0x02, 0x08, 0x10, 0x20
local SEQNO_LIMIT = 281474976710656.0
local KEYS_KEPT = 1000000
keys_kept = 0

local function has(flags, bit_of)
  return floor(flags / bit_of) % 2 == 1
end

local function new_stream(c, side, key)
  local stream = {
    key = key, vbucket = key % 65536, side = side, changes = 0, bytes = 0, markers = 0, items = 0, begun = 0, marker_n = 0,
    snapshot_n = 0, last_n = 0, bracket_n = 0, started_n = 0, flags = 0, ending_n = 0,
  }
  stream.stream = stream
  c.streams[side][key] = stream
  if #c.stream_list < REMEMBERED * 16 then
    c.stream_list[#c.stream_list + 1] = stream
  end
  return stream
end

function begin_stream(c, side, asked, n)
  local key = asked.vbucket + asked.stream_id * 65536
  local before = c.streams[side][key]
  if before and before.live and before.granted and c.opened and max(c.doubt[1], c.doubt[2]) <= before.begun then
    blame(n, "OPQ-07", format("a stream for vbucket %d was granted while it has a live one", asked.vbucket))
  end
  local stream = new_stream(c, side, key)
  stream.granted, stream.live, stream.begun, stream.request = true, true, n, asked.number
  stream.opaque, stream.start, stream.flags = asked.opaque, asked.start, asked.flags or 0
end

function close_stream(c, asked)
  for side = 1, 2 do
    local stream = c.streams[side][asked.vbucket + asked.stream_id * 65536]
    if stream then
      stream.live = false
    end
  end
end

local function is_active(c, stream)
  return has(stream.flags, TAKEOVER) or has(stream.flags, ACTIVE_ONLY)
    or (c.agreed.enable_sync_writes and c.agreed.consumer_name) or at_least(c, 702)
end

local function forget_keys(stream)
  if stream.keys then
    keys_kept = keys_kept - stream.key_count
  end
  stream.keys, stream.sync_keys, stream.key_count = {}, {}, 0
end

local PREPARED = { prepare = true, abort = true }
local NO_DOCUMENT = { system_event = true, seqno_advanced = true }

-- SNP-05: no key comes twice in one snapshot.
local function take_key(c, stream, head, s, p, n, gap, early)
  if head.key == 0 or NO_DOCUMENT[head.name] then
    return
  elseif (stream.snapshot_n > 0) == early then
    return -- behind the first early marker items come as they are written
  end
  if not stream.keys then
    forget_keys(stream)
  end
  local keys = PREPARED[head.name] and stream.sync_keys or stream.keys
  local at = p + HEADER + head.framing + head.extras
  if head.framing == 0 and head.flexible then
    at = p + R.key_at
  end
  local key = sub(s, at, at + head.key - 1)
  if not keys[key] then
    if keys_kept < KEYS_KEPT then
      keys[key] = true
      keys_kept, stream.key_count = keys_kept + 1, stream.key_count + 1
    end
    return
  end
  local kind = stream.marker and stream.marker.kind or 0
  if gap > stream.snapshot_n or has(kind, DUPLICATES) then
    return
  end
  local may_be_merged = has(kind, MEMORY) and not stream.oso and not is_active(c, stream)
  if not (may_be_merged and stream.merged) then
    blame(n, "SNP-05", "the key came in the same snapshot before", may_be_merged and "warning" or nil)
  end
end

local function take_item(c, side, stream, head, s, p, n, seqno, gap)
  local draft, early = head.drafted, c.dialect == "upr"
  local last, marker, oso = stream.last, stream.marker, stream.oso
  if draft then
    if stream.marker_n == 0 and stream.started_n > 0 and gap <= stream.started_n then
      blame(n, "SNP-01", format("seqno %.0f comes before any snapshot starts", seqno))
    end
  elseif not early and stream.snapshot_n == 0 and stream.granted and gap <= stream.begun then
    blame(n, "SNP-01", format("seqno %.0f comes before any snapshot marker", seqno))
  end
  if marker and marker.stop and not oso and (seqno < marker.start or seqno > marker.stop) and gap <= stream.marker_n then
    blame(n, "SNP-02", format("seqno %.0f is outside of the snapshot %.0f to %.0f", seqno, marker.start, marker.stop))
  end
  if last then
    if seqno <= last and not oso and stream.bracket_n <= stream.last_n and gap <= stream.last_n then
      blame(n, "SEQ-01", format("seqno %.0f comes after %.0f in the same stream", seqno, last))
    end
  elseif stream.granted and stream.start and seqno <= stream.start and not has(stream.flags, FROM_LATEST) and gap <= stream.begun then
    blame(n, "SEQ-02", format("the stream was asked for from %.0f on, and its first item has seqno %.0f", stream.start, seqno))
  end
  if (seqno == 0 or seqno >= SEQNO_LIMIT) and not draft then
    blame(n, "SEQ-07", format("seqno %.0f is no seqno", seqno))
  end
  take_key(c, stream, head, s, p, n, gap, early and true or false)
  if early and stream.items == 0 then
    stream.opening_n = n
  end
  previous_seqnos[n] = last
  stream.last, stream.last_n, stream.items = seqno, n, stream.items + 1
  stream.changes = stream.changes + 1
end

local function check_marker(c, stream, start, stop, kind, n, gap)
  local before = stream.marker
  if start > stop then
    blame(n, "SNP-03", format("the snapshot starts at %.0f and ends at %.0f", start, stop))
  end
  if has(kind, MEMORY) == has(kind, DISK) and (kind ~= 0 or stream.typed or at_least(c, 400)) then
    blame(n, "SNP-08", format("the marker's flags are %d: both memory and disk, or neither", floor(kind)))
  end
  if has(kind, DUPLICATES) and not has(kind, HISTORY) then
    blame(n, "SNP-08", "it may contain duplicates, and has no history")
  end
  if has(kind, HISTORY) and not c.agreed.change_streams and c.opened and not c.damaged then
    blame(n, "SNP-08", "history, and nobody asked for change streams")
  end
  if has(kind, ACKNOWLEDGE) and not has(stream.flags, TAKEOVER) and stream.granted and gap <= stream.begun then
    blame(n, "SNP-08", "to be confirmed, and the stream is no takeover", "warning")
  end
  if not before or not before.stop or stream.bracket_n > stream.marker_n then
    return
  end
  local sent = max(stream.last or -1, stream.start or -1)
  if start > sent and start > before.start and start <= before.stop and stop >= before.stop and not has(kind, HISTORY)
    and gap <= stream.marker_n then
    stream.merged = true -- a replica merges snapshots
  end
  local continues = has(kind, HISTORY) and not has(before.kind, HISTORY) and stop == before.stop
  if start <= before.stop and not continues and gap <= stream.marker_n then
    local active = is_active(c, stream)
    if active or not stream.merged then
      blame(n, "SNP-04", format("the snapshot starts at %.0f, and the one before it ended at %.0f", start, before.stop), not active and "warning" or nil)
    end
  end
end

local function take_marker(c, side, stream, head, s, p, n, number, gap)
  local start, stop = field_value(s, p, "snap_start_seqno"), field_value(s, p, "snap_end_seqno")
  local kind = field_value(s, p, "snapshot_type") or 0
  if start and stop then
    check_marker(c, stream, start, stop, kind, n, gap)
  end
  stream.typed = stream.typed or kind >= 2
  stream.marker = { stream = stream, start = start or 0, stop = stop, kind = kind, number = number }
  stream.marker_n, stream.snapshot_n, stream.items = n, n, 0
  stream.markers = stream.markers + 1
  forget_keys(stream)
end

-- A message of a vbucket's stream.
local function take_stream_message(c, side, head, s, p, body, n, number, flawed, seqno)
  local key = head.number
  if head.framing > 0 or (head.flexible and R.framing and R.framing > 0) then
    key = key + (field_value(s, p, "stream_id") or 0) * 65536
  end
  local stream = c.streams[side][key]
  local fresh = not stream
  if fresh then
    stream = new_stream(c, side, key)
  end
  local gap, kind = max(c.doubt[side], stream.hole or 0), head.kind
  local refused = false -- an end with another stream's opaque ends nothing
  if not head.drafted then
    local opaque = number_at(s, p + 12, 4)
    if kind ~= OTHER then
      if stream.granted then
        if opaque ~= stream.opaque and gap <= stream.begun and not flawed then
          refused = true
          blame(n, "OPQ-04", format("opaque 0x%08x, but the stream of vbucket %d has 0x%08x", opaque, stream.vbucket, stream.opaque))
        end
      elseif c.opened and gap == 0 and not flawed then
        blame(n, "OPQ-04", format("opaque 0x%08x for vbucket %d, which has no stream", opaque, stream.vbucket))
      end
    end
    if stream.ending_n > 0 and gap <= stream.ending_n and not flawed then
      blame(n, "OPQ-06", format("a message for vbucket %d behind its stream end", stream.vbucket))
    end
  end
  snapshots[n] = stream.marker or stream
  stream.bytes = stream.bytes + HEADER + body
  if kind == DATA then
    if seqno then
      take_item(c, side, stream, head, s, p, n, seqno, gap)
    else
      stream.hole = n -- an item that nobody can read is as good as lost
    end
  elseif kind == MARKER then
    take_marker(c, side, stream, head, s, p, n, number, gap)
  elseif kind == OSO then
    stream.oso = field_value(s, p, "oso_flags") == 1
    stream.bracket_n, stream.snapshot_n = n, n
    forget_keys(stream)
  elseif kind == END then
    local reason = head.drafted and head.datatype or field_value(s, p, "end_reason")
    if c.dialect == "upr" and reason == 0 and stream.items > 0 and stream.opening_n and stream.granted and gap <= stream.begun then
      blame(stream.opening_n, "SNP-01", format("no marker closes the last %d items before the stream ends", stream.items))
    end
    stream.live, stream.reason = false, reason
    stream.ending_n = refused and stream.ending_n or n
  elseif head.name == "stream_start" then
    stream.started_n = n
  end
end

---------------------------------------------------------------- flow control

local function take_counted(c, side, head, body, n, pinfo)
  c.flow_side = c.flow_side or side
  if c.flow_side ~= side then
    return
  end
  local size, early = HEADER + body + head.flow, c.dialect == "upr"
  c.sent = c.sent + size
  if (c.window or -1) <= 0 then
    return
  end
  local full = c.window
  if early then
    c.largest = max(c.largest, size)
    full = full + c.largest
  end
  if c.sluggish_until >= 0 and pinfo.rel_ts <= c.sluggish_until then
    full = full + c.sluggish_bytes
    c.sluggish_bytes = c.sluggish_bytes + size
  end
  if c.outstanding >= full and c.opened and not c.damaged then
    blame(n, "FLC-02", format("%.0f bytes are outstanding in a window of %.0f, and more is sent", c.outstanding, c.window))
  end
  outstandings[n] = c.outstanding
  if early and c.freed then
    c.freed = false -- held back until the ack, and sent uncounted
  else
    c.outstanding = c.outstanding + size
  end
end

-- Whether a packet's sender had received more of the other side than was seen here: TCP may be waiting for lost bytes.
local function unheard(c, side)
  local found = ack_field and ack_field()
  local seen = c.seen[3 - side]
  local more = found and seen and (found.value - seen) % WORD or 0
  return more > 0 and more < WORD / 2
end

local function take_ack(c, side, s, p, n, time)
  local bytes = field_value(s, p, "buffer_bytes")
  c.flow_side = c.flow_side or 3 - side
  if c.flow_side == side then
    return
  end
  if bytes == 0 and c.dialect ~= "draft" then
    blame(n, "FLC-07", "0 bytes are given back")
  end
  local known = c.opened and not c.damaged
  if bytes and not c.window_asked and known then
    blame(n, "FLC-06", format("%.0f bytes are given back, and no connection_buffer_size was set", bytes))
  end
  bytes = bytes or 0
  if (c.window or -1) > 0 then
    local due = c.sent - c.returned
    local excess = bytes - due
    if excess > 0 then
      local counted_noops = excess == 24 * (c.noops - c.noops_before) or excess == 24 * c.noops
      if known and not counted_noops and not unheard(c, side) then
        blame(n, "FLC-01", format("%.0f bytes are given back, and only %.0f had arrived and were not given back yet", bytes, due))
      end
    end
    c.returned = c.returned + min(bytes, due)
    if bytes > c.outstanding then
      c.sluggish_until, c.sluggish_bytes = time + 1, 0
    end
    c.outstanding = max(c.outstanding - bytes, 0)
    c.freed = true
  end
  c.noops_before = c.noops
  outstandings[n] = c.outstanding
end

---------------------------------------------------------------- the draft

local function take_draft(c, side, head, s, p, body, n, number, time)
  local opaque = number_at(s, p + 12, 4)
  if not head.response then
    c.opened = c.opened or n
    local key = question_key(side, 0, opaque) + head.number * 2 ^ -17
    local asked = { n = n, number = number, time = time, vbucket = head.number, stream_id = 0, opaque = opaque, side = side, flags = 0 }
    if head.name == "stream_request" then
      asked.start = field_value(s, p, "start_seqno")
    end
    c.waiting[key] = c.waiting[key] or {}
    table.insert(c.waiting[key], asked)
    return
  end
  local name = head.name
  if name ~= "stream_ok" and name ~= "stream_not_my_vbucket" and name ~= "stream_rollback" and name ~= "failover_log" then
    return
  end
  local key = question_key(3 - side, 0, opaque) + head.number * 2 ^ -17
  local queue = c.waiting[key]
  if queue then
    local asked = table.remove(queue, 1)
    if #queue == 0 then
      c.waiting[key] = nil
    end
    c.answered[key] = true
    link(asked, n, number, time)
    if name == "stream_ok" then
      begin_stream(c, side, asked, n)
    end
  else
    if c.opened and not c.damaged then
      blame(n, "OPQ-01", c.answered[key] and "a second answer to one request" or "an answer to no request")
    end
    if name == "stream_ok" then
      lose(c, side)
    end
  end
end

---------------------------------------------------------------- every frame, on the first pass

-- Whether a few comparisons show that nothing is wrong with a frame; see is_plain.
local function is_sound(head, collections, s, p, body, have)
  local value = body - head.extras - head.key
  if value < 0 or have < HEADER + body or (value > 0 and head.value_rule == "must not") or (value == 0 and head.value_rule == "must") then
    return false
  end
  local nmeta = head.nmeta_at
  if nmeta then
    local high, low = byte(s, p + HEADER + nmeta, p + HEADER + nmeta + 1)
    if high + low > 0 then
      return false
    end
  end
  if collections and head.document then
    return head.key > 1 and byte(s, p + HEADER + head.extras) < 128
  end
  return true
end

-- Whether the frame that was examined last is not what its message says, so that no field of it means anything.
local MISREAD = { ["extras-length-unknown"] = true, ["lengths-exceed-body"] = true }

local function misread()
  for i = 1, R.flaws do
    if MISREAD[R.defects[i]] then
      return true
    end
  end
  return false
end

function track(c, side, head, s, p, body, have, number, pinfo, late)
  local n = tracked + 1
  tracked = n
  c.frames, c.bytes = c.frames + 1, c.bytes + HEADER + body
  if not c.waiting then
    prepare_state(c)
  end
  local flaws, kind, examined = 0, head.kind, false
  if kind ~= DATA or not head.plain or not is_sound(head, c.collections, s, p, body, have) then
    examine(head, c.collections, s, p, body, have)
    flaws, examined = R.flaws, true
  end
  if late then
    lose(c, side)
    return n
  elseif have < HEADER + body then
    lose(c, side)
  end
  if c.dialect ~= "memcached" then
    if not head.since then
      head.since = head.opcode == SNAPSHOT_MARKER and -1 or since_of(head, s, p)
    end
    local since = head.since >= 0 and head.since or since_of(head, s, p)
    if since > c.since and c.dialect == "dcp" then
      c.since = since
    end
    if not c.opened and not head.response and (head.drafted or head.opcode == OPEN) then
      c.opened = n
    end
    if inspect and head.datatype > 0 and kind and have == HEADER + body then
      flaws = flaws + check_document(head, s, p, body, examined)
    end
    if flaws > 0 then
      blame_defects(c, head, n)
    end
    if c.blame_next and c.blame_next[side] then
      blame(n, "FRM-02", format("%d bytes before this frame are none: no known magic where a frame should start", c.blame_next[side]))
      c.blame_next[side] = nil
    end
    if head.number >= LIMITS.vbuckets and not head.status and not head.response then
      blame(n, "FRM-15", format("vbucket %d; clusters have %d", head.number, LIMITS.vbuckets))
    end
    if examined then
      blame_oddities(c, head, n, s, p)
    end
    if head.opcode == MUTATION and c.since >= 405 and not head.response and byte(s, p + 16) == 0 and c.dialect == "dcp"
      and sub(s, p + 16, p + 23) == ZERO_CAS then
      blame(n, "FRM-07", "a mutation with CAS 0, from a server of 4.5 or later")
    end
  end
  c.last = c.last or {}
  c.last[side] = n
  if kind and kind <= OTHER then
    local seqno
    if kind == DATA then
      if flaws == 0 and head.seqno_at then
        seqno = number_at(s, p + HEADER + (head.flexible and R.framing or head.framing) + head.seqno_at, 8)
      elseif head.spec.seqno and not misread() then
        seqno = field_value(s, p, head.spec.seqno)
      end
    end
    take_stream_message(c, side, head, s, p, body, n, number, flaws > 0, seqno)
  end
  if head.flow and kind then
    take_counted(c, side, head, body, n, pinfo)
  end
  if kind and kind < STATE and kind ~= MARKER then
    return n
  end
  if head.drafted then
    take_draft(c, side, head, s, p, body, n, number, pinfo.rel_ts)
  elseif head.response then
    take_answer(c, side, head, s, p, body, n, number, pinfo.rel_ts)
  elseif kind == ACK then
    take_ack(c, side, s, p, n, pinfo.rel_ts)
    if c.dialect == "upr" then
      take_question(c, side, head, s, p, body, n, number, pinfo.rel_ts)
    end
  elseif kind == MARKER then
    if has(field_value(s, p, "snapshot_type") or 0, ACKNOWLEDGE) then
      take_question(c, side, head, s, p, body, n, number, pinfo.rel_ts)
    end
  elseif head.opcode == NOOP and head.upr then
    c.noops = c.noops + 1
    take_question(c, side, head, s, p, body, n, number, pinfo.rel_ts)
  elseif not kind or kind == STATE then
    take_question(c, side, head, s, p, body, n, number, pinfo.rel_ts)
  end
  if #c.orphans > 0 then
    settle_orphans(c, side)
  end
  return n
end

end
