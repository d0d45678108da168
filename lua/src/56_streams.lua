---------------------------------------------------------------- streams: snapshots, seqnos, keys

-- What the other parts use; everything else is private to this one.
local has, keys_kept, take_stream_message, KEYS_KEPT, ACKNOWLEDGE

do
local asked, marked = SPEC.STREAM_FLAG, SPEC.MARKER_FLAG
local TAKEOVER, ACTIVE_ONLY, FROM_LATEST = asked.takeover, asked.active_vbucket_only, asked.from_latest
local MEMORY, DISK, HISTORY, DUPLICATES = marked.memory, marked.disk, marked.history, marked.may_contain_duplicates
ACKNOWLEDGE = marked.acknowledge
local SEQNO_LIMIT = 281474976710656.0
KEYS_KEPT = 1000000
keys_kept = 0

function has(flags, bit_of)
  return floor(flags / bit_of) % 2 == 1
end

local function new_stream(c, side, key)
  local stream = {
    key = key, vbucket = key % 65536, side = side, changes = 0, bytes = 0, markers = 0, opened = 0, begun = 0, marker_n = 0,
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
  if before and before.live and before.granted and c.opened and not c.damaged then
    blame(n, "OPQ-07", format("a stream for vbucket %d was granted while it has a live one", asked.vbucket))
  end
  local stream = new_stream(c, side, key)
  stream.granted, stream.live, stream.begun, stream.request = true, true, n, asked.number
  stream.opaque, stream.start, stream.flags = asked.opaque, asked.start, asked.flags or 0
end

-- `answered`: the answer's ordinal, where the capture has it before the request. What began after it is another stream.
function close_stream(c, asked, answered)
  for side = 1, 2 do
    local stream = c.streams[side][asked.vbucket + asked.stream_id * 65536]
    if stream and (not answered or stream.begun < answered) then
      stream.live = false
    end
  end
end

local function is_active(c, stream)
  return has(stream.flags, TAKEOVER) or has(stream.flags, ACTIVE_ONLY)
    or (c.agreed.enable_sync_writes and c.agreed.consumer_name) or at_least(c, 702)
end

-- Whether its request was captured, and nothing was lost since.
local function is_whole(stream, gap)
  return stream.granted and gap <= stream.begun
end

-- Whether the beginning of an out-of-order snapshot may be among what was lost: only a marker tells that there is none.
local function maybe_oso(c, stream, gap)
  local agreed = c.agreed.enable_out_of_order_snapshots or not c.opened or c.damaged
  return agreed and c.dialect == "dcp" and (gap > stream.snapshot_n or (stream.snapshot_n == 0 and not stream.granted))
end

-- Whether a consumer refuses an item: what it refuses did not happen for the messages after it.
local function is_refused(stream, seqno, gap)
  local marker, last = stream.marker, stream.last
  if seqno >= SEQNO_LIMIT then
    return true
  elseif stream.oso then
    return false
  end
  local outside = marker and marker.stop and (seqno < marker.start or seqno > marker.stop) and gap <= stream.marker_n
  return outside or (last and seqno <= last and stream.bracket_n <= stream.last_n and gap <= stream.last_n)
end

local function forget_keys(stream)
  if stream.keys then
    keys_kept = keys_kept - stream.key_count
  end
  stream.keys, stream.sync_keys, stream.key_count = {}, {}, 0
end

-- SNP-05: no key comes twice in one snapshot.
local function take_key(c, stream, head, s, p, n, gap, early)
  if not head.keyed then
    return
  elseif (stream.snapshot_n > 0) == early then
    return -- after the first early marker items come as they are written
  end
  if not stream.keys then
    forget_keys(stream)
  end
  local keys = head.sync and stream.sync_keys or stream.keys
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
  if early and (c.damaged or not is_whole(stream, gap)) then
    return
  elseif not may_be_merged or (is_whole(stream, gap) and not stream.merged) then
    blame(n, "SNP-05", "the key came in the same snapshot before", may_be_merged and "warning" or nil)
  end
end

local function take_item(c, side, stream, head, s, p, n, seqno, gap)
  local draft, early = head.drafted, c.dialect == "upr"
  local last, marker, oso = stream.last, stream.marker, stream.oso
  if draft then
    if stream.marker_n == 0 and stream.started_n > 0 and gap <= stream.started_n and c.draft_count > 0 then
      blame(n, "SNP-01", format("seqno %.0f comes before any snapshot starts", seqno))
    end
  elseif not early and stream.snapshot_n == 0 and c.since > 0 and is_whole(stream, gap) then
    blame(n, "SNP-01", format("seqno %.0f comes before any snapshot marker", seqno))
  end
  if marker and marker.stop and not oso and (seqno < marker.start or seqno > marker.stop) and gap <= stream.marker_n then
    blame(n, "SNP-02", format("seqno %.0f is outside of the snapshot %.0f to %.0f", seqno, marker.start, marker.stop))
  end
  if last then
    if seqno <= last and not oso and stream.bracket_n <= stream.last_n and gap <= stream.last_n and not maybe_oso(c, stream, gap) then
      blame(n, "SEQ-01", format("seqno %.0f comes after %.0f in the same stream", seqno, last))
    end
  elseif stream.granted and stream.start and seqno <= stream.start and not has(stream.flags, FROM_LATEST) and gap <= stream.begun then
    blame(n, "SEQ-02", format("the stream was asked for from %.0f on, and its first item has seqno %.0f", stream.start, seqno))
  end
  if (seqno == 0 or seqno >= SEQNO_LIMIT) and not draft then
    blame(n, "SEQ-07", format("seqno %.0f is no seqno", seqno))
  end
  take_key(c, stream, head, s, p, n, gap, early and true or false)
  if early and stream.changes == stream.opened then
    stream.opening_n = n
  end
  previous_seqnos[n] = last
  stream.changes = stream.changes + 1
  if not is_refused(stream, seqno, gap) then
    stream.last, stream.last_n = seqno, n
  end
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
    if active or (is_whole(stream, gap) and not stream.merged) then
      blame(n, "SNP-04", format("the snapshot starts at %.0f, and the one before it ended at %.0f", start, before.stop), not active and "warning" or nil)
    end
  end
end

local function take_marker(c, side, stream, head, s, p, n, number, gap)
  local start, stop = field_value(s, p, "snap_start_seqno"), field_value(s, p, "snap_end_seqno")
  local kind = field_value(s, p, "snapshot_type") or 0
  if start and stop then
    check_marker(c, stream, start, stop, kind, n, gap)
    if start > stop then
      return -- a consumer refuses it
    end
  end
  stream.typed = stream.typed or kind >= 2
  stream.marker = { stream = stream, start = start or 0, stop = stop, kind = kind, number = number }
  stream.marker_n, stream.snapshot_n, stream.opened = n, n, stream.changes
  stream.markers = stream.markers + 1
  forget_keys(stream)
end

local function marker_of(stream)
  return stream.marker and stream.marker.stop and stream.marker
end

-- A message of a vbucket's stream.
function take_stream_message(c, side, head, s, p, body, n, number, flawed, seqno)
  local key = head.number
  if head.framing > 0 and R.defect_count > 0 and not R.infos[1] then
    lose(c, side) -- of which stream it is was cut off
    return
  end
  if head.framing > 0 or (head.flexible and R.framing and R.framing > 0) then
    key = key + (field_value(s, p, "stream_id") or 0) * 65536
  end
  local stream = c.streams[side][key]
  local fresh = not stream
  if fresh then
    stream = new_stream(c, side, key)
  end
  local gap, kind = max(c.doubt[side], stream.hole or 0), head.kind
  if head.drafted and c.damaged then
    gap = n -- where frames of the draft start after a hole is never sure
  end
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
    -- Where the stream's own opaque is not known, this may be another stream.
    local ended = stream.ending_n > 0 and gap <= stream.ending_n and (stream.granted or opaque == stream.ending_opaque)
    if ended and not flawed then
      blame(n, "OPQ-06", format("a message for vbucket %d behind its stream end", stream.vbucket))
    end
  end
  snapshots[n] = stream.marker or stream
  stream.bytes = stream.bytes + HEADER + body
  if kind == DATA then
    if seqno then
      take_item(c, side, stream, head, s, p, n, seqno, gap)
    else
      stream.hole = n -- an item that can't be read is as good as lost
    end
  elseif kind == MARKER then
    take_marker(c, side, stream, head, s, p, n, number, gap)
  elseif kind == OSO then
    stream.oso = field_value(s, p, "oso_flags") == 1
    stream.bracket_n, stream.snapshot_n = n, n
    forget_keys(stream)
  elseif kind == END then
    local reason = head.drafted and head.datatype or field_value(s, p, "end_reason")
    local open = stream.changes - stream.opened
    if c.dialect == "upr" and reason == 0 and open > 0 and stream.opening_n and is_whole(stream, gap) and not c.damaged then
      blame(stream.opening_n, "SNP-01", format("no marker closes the last %d items before the stream ends", open))
    end
    stream.live, stream.reason = false, reason
    if not refused then
      stream.ending_n, stream.ending_opaque = n, number_at(s, p + 12, 4)
    end
  elseif head.name == "stream_start" then
    stream.started_n = n
  end
  -- The marker while nothing but its numbers decides about the next change: see follow.
  stream.steady = stream.last and stream.granted and stream.ending_n == 0 and stream.snapshot_n > 0 and not stream.oso
    and stream.vbucket < LIMITS.vbuckets and marker_of(stream) or nil
end

end
