---------------------------------------------------------------- questions and answers

-- What the other parts use; everything else is private to this one. Streams come after this part.
local link, take_question, settle_orphans, take_answer
local begin_stream, close_stream

do
local CLOSE_STREAM, FAILOVER_LOG, VBUCKET_STATE = OPCODE.close_stream, OPCODE.get_failover_log, OPCODE.set_vbucket_state
local BUFFER_ACK, CONTROL = OPCODE.buffer_ack, OPCODE.control
-- Requests whose answer is owed.
local OWED = {
  [OPEN] = true, [ADD_STREAM] = true, [CLOSE_STREAM] = true, [STREAM_REQUEST] = true, [FAILOVER_LOG] = true,
  [VBUCKET_STATE] = true, [NOOP] = true, [CONTROL] = true, [SNAPSHOT_MARKER] = true,
}
-- Messages that are answered only to refuse them.
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

function link(asked, n, number, time)
  if asked.n <= kept_limit then
    links[asked.n] = links[asked.n] or {}
    links[asked.n].response_in = number
  end
  -- Milliseconds, to the nanosecond: more digits than that are the difference of two doubles.
  local elapsed = floor((time - asked.time) * 1000000000 + 0.5) / 1000000
  links[n] = { response_to = asked.number, response_time = elapsed, vbucket = asked.vbucket }
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
        c.outstanding, c.sluggish_until, c.sluggish_bytes, c.ahead = 0, -1, 0, 0
      end
      c.window, c.changed = size, true
    elseif CONTROLS[key] then
      c.agreed[key] = value ~= "false" or nil
      c.agreed_since = max(c.agreed_since or 0, value ~= "false" and CONTROLS[key].since or 0)
    end
  end
end

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
    if asked.doubtful or asked.cut then
      c.streams[side][asked.vbucket + asked.stream_id * 65536].granted = nil
      lose(c, side) -- which request it answers, or what that said, is not known
    end
  elseif asked.opcode == CLOSE_STREAM then
    close_stream(c, asked)
  else
    agree(c, asked, s, p, body, head)
  end
end

function take_question(c, side, head, s, p, body, n, number, time)
  local opcode, opaque = head.opcode, number_at(s, p + 12, 4)
  local asked = {
    opcode = opcode, opaque = opaque, side = side, n = n, number = number, time = time, vbucket = head.number,
    stream_id = field_value(s, p, "stream_id") or 0,
  }
  if opcode == OPEN then
    c.opened = c.opened or n
    asked.flags = field_value(s, p, "open_flags")
    if R.value_at <= HEADER + body and R.key > 0 then
      c.name, c.changed = sub(s, p + R.key_at, p + R.value_at - 1), true
    end
    learn_role(c, side, head, s, p)
    if asked.flags and floor(asked.flags / LIMITS.delete_times) % 2 == 1 then
      c.since, c.changed = max(c.since, LIMITS.delete_times_since), true
    end
  elseif opcode == CONTROL then
    asked.key = sub(s, p + R.key_at, p + R.value_at - 1)
    asked.value = sub(s, p + R.value_at, p + HEADER + body - 1)
    if p + R.value_at - 1 > #s then
      c.torn[side] = true -- which one it is was cut off
    elseif asked.key == "connection_buffer_size" then
      c.window_asked = (c.window_asked or 0) + 1
    end
  elseif opcode == STREAM_REQUEST then
    asked.start, asked.flags = field_value(s, p, "start_seqno"), field_value(s, p, "stream_flags") or 0
    asked.cut = p + HEADER + body - 1 > #s
    local text = sub(s, p + R.value_at, p + HEADER + body - 1)
    asked.stream_id = tonumber(text:match('"sid"%s*:%s*(%d+)') or 0) % 65536 -- servers keep 16 bits
  end
  local key = question_key(side, opcode, opaque)
  for i, orphan in ipairs(c.orphans) do
    if orphan.key == key then -- only the capture has them the wrong way round
      table.remove(c.orphans, i)
      link(asked, orphan.n, orphan.number, orphan.time)
      if orphan.granted and opcode == CLOSE_STREAM then
        close_stream(c, asked, orphan.n)
      elseif orphan.granted and opcode ~= STREAM_REQUEST then
        agree(c, asked)
      end
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
function settle_orphans(c, side)
  local seen = c.lanes[side].seen
  for i = #c.orphans, 1, -1 do
    local orphan = c.orphans[i]
    if orphan.side ~= side and (not seen or (seen - orphan.acked) % TCP_SPAN < TCP_SPAN / 2) then
      table.remove(c.orphans, i)
      if not c.damaged and c.opened then
        blame(orphan.n, "OPQ-01", "an answer to no request of the other side")
      end
    end
  end
end

function take_answer(c, side, head, s, p, body, n, number, time)
  local opcode, opaque = head.opcode, number_at(s, p + 12, 4)
  local key = question_key(3 - side, opcode, opaque)
  local queue = c.waiting[key]
  if queue then
    local asked = table.remove(queue, 1)
    asked.doubtful = #queue > 0 and c.damaged
    c.waiting_count = c.waiting_count - 1
    if #queue == 0 then
      c.waiting[key] = nil
    end
    paired(c, side, asked, head, s, p, body, n, number, time)
    return
  end
  if not head.upr then
    if opcode == HELLO and head.status == 0 then
      lose(c, side) -- what was agreed upon, and by whom, is not known
    end
    return
  end
  local early = c.dialect == "upr"
  if not OWED[opcode] or opcode == SNAPSHOT_MARKER then
    if head.status == 0 and SILENT[opcode] and not early and c.since > 0 then
      blame(n, "OPQ-03", head.name .. " answered with success; such messages are not answered")
    end
    return
  end
  if c.answered[key] then
    if c.opened and not c.damaged and not unheard(c, side) then
      blame(n, "OPQ-01", format("a second %s response with opaque 0x%08x", head.name, opaque))
    end
  else
    local found = ack_field and ack_field()
    local acked, seen = found and found(), c.lanes[3 - side].seen
    if acked and seen and (acked - seen) % TCP_SPAN > 0 and (acked - seen) % TCP_SPAN < TCP_SPAN / 2 and #c.orphans < REMEMBERED then
      c.orphans[#c.orphans + 1] = { key = key, side = side, n = n, number = number, time = time, acked = acked, granted = head.status == 0 }
    elseif c.opened and not c.damaged then
      blame(n, "OPQ-01", format("a %s response with opaque 0x%08x, which no request of the other side had", head.name, opaque))
    end
  end
  if opcode == STREAM_REQUEST and head.status == 0 then
    lose(c, side) -- a stream begins, and it is unknown which
  end
end

end
