---------------------------------------------------------------- runs of frames that call for no closer look

-- What the other parts use; everything else is private to this one. RAW is Tvb.raw; the dissector sets it.
local RAW, skim, follow

do
-- Nearly every frame is a change that comes as it should, and mostly no tree of it is wanted. Such frames are taken many at a
-- time: Lua takes its time for every step, so there are few per frame, and what is counted is added up at the end.
-- Both functions begin at offset o of a tvb and take whole frames of one kind. They return the offset after them, how
-- many they are, their kind, and what is there: the number of bytes that the next frame still lacks (0: the tvb ends
-- with this one), true for frames of another kind, false for something that calls for a closer look; and last, the first
-- bytes of the first frame.

-- Of each frame only the first bytes are fetched: header, extras, and a key as most are. A packet as a text in Lua is many
-- times as large, and has to be made and forgotten. Texts up to 40 bytes are looked up by Lua, which takes longer.
local HEAD_BYTES = 128

local LONGEST_KEY = LIMITS.key - 1
local LONGEST = LIMITS.body + 2097152

-- What is at offset o, where no whole frame is; `stop` is where it would end.
local function rest_at(o, length, magic, stop)
  local left = length - o
  if left == 0 then
    return 0
  elseif not MAGICS[magic] then
    return false
  elseif left < HEADER then
    return DESEGMENT_ONE_MORE_SEGMENT
  end
  return stop > length and stop - o <= LONGEST and stop - length
end

-- Where rules are not checked, it is enough to know what a frame is.
function skim(c, tvb, o, length)
  local known, times = c.kinds, 0
  local kind, first
  while true do
    local s = RAW(tvb, o, min(HEAD_BYTES, length - o))
    local m, opcode, _, _, extras, datatype, _, _, b1, b2, b3, b4 = byte(s, 1, 12)
    first = first or s
    local stop = b4 and o + HEADER + ((b1 * 256 + b2) * 256 + b3) * 256 + b4
    if not b4 or stop > length then
      return o, times, kind, rest_at(o, length, m, stop), first
    end
    local this = known[((m * 256 + opcode) * 256 + extras) * 256 + datatype]
    if this ~= kind or not this then
      if kind then
        return o, times, kind, true, first
      elseif this == nil then
        this = kind_at(known, c.dialect, m, opcode, extras, datatype)
      end
      if not this or this.tell > c.level then
        return o, 0, nil, false
      end
      kind = this
    end
    times, o = times + 1, stop
    if o == length then
      return o, times, kind, 0, first
    end
  end
end

-- Where they are, numbers are compared, and counted when all is well: a frame that could break a rule ends the run,
-- and has changed nothing. Says what track says, for what it takes. n is the ordinal of the last frame.
function follow(c, side, tvb, o, length, n)
  local streams, window, outstanding = c.streams, c.window, c.outstanding
  if not streams or not c.quick or c.blame_next or c.unconfirmed[side] > 0 or c.ahead > 0 or c.flow_side ~= side or c.sluggish_until >= 0 then
    return o, 0, nil, false
  end
  streams, window = streams[side], window and window > 0 and window
  local known, since, collections, start, times, rest = c.kinds, c.since, c.collections, o, 0, false
  local kind, flow, first
  while true do
    local s = RAW(tvb, o, min(HEAD_BYTES, length - o))
    local m, opcode, k1, k2, extras, datatype, v1, v2, b1, b2, b3, b4, o1, o2, o3, o4, cas, _, _, _, _, _, _, _,
      s1, s2, s3, s4, s5, s6, s7, s8 = byte(s, 1, 32)
    first = first or s
    local body = b4 and ((b1 * 256 + b2) * 256 + b3) * 256 + b4
    local stop = b4 and o + HEADER + body
    if not s8 or stop > length then
      rest = rest_at(o, length, m, stop)
      break
    end
    local this = known[((m * 256 + opcode) * 256 + extras) * 256 + datatype]
    if this ~= kind or not this then
      if kind then
        rest = true
        break
      elseif this == nil then
        this = kind_at(known, c.dialect, m, opcode, extras, datatype)
      end
      if not this or this.tell > c.level or (inspect and datatype > 0) then
        break
      end
      kind = this
    end
    local stream = streams[v1 * 256 + v2]
    local marker, key, head = stream and stream.steady, k1 * 256 + k2, kind.keyed
    if key == 0 then
      head = kind.bare
    elseif key > LONGEST_KEY then
      break
    end
    if not marker or not head or head.since > since or (window and outstanding >= window) then
      break
    end
    local seqno, last = ((((s3 * 256.0 + s4) * 256 + s5) * 256 + s6) * 256 + s7) * 256 + s8, stream.last
    if seqno <= last or seqno > marker.stop or seqno < marker.start or s1 + s2 > 0
      or ((o1 * 256 + o2) * 256 + o3) * 256 + o4 ~= stream.opaque or (cas == 0 and since >= 405) then
      break
    end
    local value, nmeta, at = body - extras - key, head.nmeta_at, 25 + extras
    if value < head.least_value or value > head.most_value then
      break
    end
    if nmeta then
      local high, low = byte(s, 25 + nmeta, 26 + nmeta)
      if high + low > 0 then
        break
      end
    end
    if collections and head.document and (key < 2 or byte(s, at) > 127) then
      break
    end
    if head.keyed then
      local keys, text = head.sync and stream.sync_keys or stream.keys, nil
      if at + key > HEAD_BYTES then
        text = RAW(tvb, o + at - 1, key)
      else
        text = sub(s, at, at + key - 1)
      end
      if not keys or keys[text] then
        break
      elseif keys_kept < KEYS_KEPT then
        keys[text] = true
        keys_kept, stream.key_count = keys_kept + 1, stream.key_count + 1
      end
    end
    n, times, flow = n + 1, times + 1, head.flow
    stream.bytes, stream.last, stream.last_n, stream.changes = stream.bytes + HEADER + body, seqno, n, stream.changes + 1
    if keeping then
      snapshots[n], previous_seqnos[n], outstandings[n] = marker, last, window and outstanding or nil
    end
    if window then
      outstanding = outstanding + HEADER + body + flow
    end
    o = stop
    if o == length then
      rest = 0
      break
    end
  end
  if times > 0 then
    c.frames, c.bytes, c.sent, c.last[side] = c.frames + times, c.bytes + o - start, c.sent + o - start + times * flow, n
    c.outstanding = outstanding
  end
  return o, times, kind, rest, first
end

end
