---------------------------------------------------------------- every frame, on the first pass

-- What the other parts use; everything else is private to this one.
local track, inspect

do
local MUTATION = OPCODE.mutation
-- Whether the frame that was examined last is not what its message says, so that no field of it means anything.
local MISREAD = { ["extras-length-unknown"] = true, ["lengths-exceed-body"] = true }

local function misread()
  for i = 1, R.defect_count do
    if MISREAD[R.defects[i]] then
      return true
    end
  end
  return false
end

-- The rules about frame n itself, and what it says about the release of its sender.
local function take_frame(c, side, head, s, p, n, defect_count, examined, whole)
  local since = head.since or since_of(head, s, p)
  if since > c.since and c.dialect == "dcp" then
    c.since, c.changed = since, true
  end
  if not c.opened and not head.response and (head.drafted or head.opcode == OPEN) then
    c.opened = n
  end
  -- Frames that were found after a hole may be none until some in a row are legal.
  local searched = c.searched[side] == n or c.unconfirmed[side] > 0
  if c.unconfirmed[side] > 0 and c.dialect ~= "draft" and legal(s, p) then
    c.unconfirmed[side] = c.unconfirmed[side] - (whole and 1 or 0)
  elseif c.unconfirmed[side] > 0 then
    c.unconfirmed[side] = LIMITS.confirm
    lose(c, side)
  end
  if head.fault and not head.response then
    c.uncounted = true -- whether it counts is not known
  end
  if defect_count > 0 and not searched then
    Framing.blame_defects(c, side, head, n)
  end
  if c.blame_next and c.blame_next[side] then
    blame(n, "FRM-02", format("%d bytes before this frame are none: no known magic where a frame should start", c.blame_next[side]))
    c.blame_next[side] = nil
  end
  if searched then
    return
  end
  if head.number >= LIMITS.vbuckets and not head.status and not head.response then
    blame(n, "FRM-15", format("vbucket %d; clusters have %d", head.number, LIMITS.vbuckets))
  end
  if examined then
    Framing.blame_oddities(c, side, head, n, s, p)
  end
  if c.dialect == "upr" then
    Framing.take_early(c, head, n)
  end
  if c.forms then
    Framing.settle(c)
  end
  if head.opcode == MUTATION and at_least(c, 405) and not head.response and byte(s, p + 16) == 0 and c.dialect == "dcp"
    and sub(s, p + 16, p + 23) == ZERO_CAS and not Framing.key_only(c, number_at(s, p + 8, 4) - head.extras - head.key) then
    blame(n, "FRM-07", "a mutation with CAS 0, from a server of 4.5 or later")
  end
end

-- Take frame n, whatever it is.
function track(c, side, head, s, p, body, have, n, number, pinfo, late)
  c.frames, c.bytes = c.frames + 1, c.bytes + HEADER + body
  if not c.waiting then
    prepare_state(c)
  end
  local defect_count, kind, examined = 0, head.kind, false
  if kind ~= DATA or not head.plain or not is_sound(head, c.collections, s, p, body, have) then
    examine(head, c.collections, s, p, body, have)
    defect_count, examined = R.defect_count, true
  end
  if late then
    lose(c, side)
    return
  elseif have < HEADER + body then
    lose(c, side)
  end
  if c.dialect ~= "memcached" then
    if inspect and head.datatype > 0 and kind and have == HEADER + body then
      defect_count = defect_count + check_document(head, s, p, body, examined)
    end
    take_frame(c, side, head, s, p, n, defect_count, examined, have == HEADER + body)
  end
  c.last[side] = n
  if kind and kind <= OTHER then
    local seqno
    if kind == DATA then
      if defect_count == 0 and head.seqno_at then
        seqno = number_at(s, p + HEADER + (head.flexible and R.framing or head.framing) + head.seqno_at, 8)
      elseif head.spec.seqno and not misread() then
        seqno = field_value(s, p, head.spec.seqno)
      end
    end
    take_stream_message(c, side, head, s, p, body, n, number, defect_count > 0, seqno)
  end
  if head.flow and kind then
    take_counted(c, side, head, body, n, pinfo)
  end
  if kind and kind < STATE and kind ~= MARKER then
    return
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
end

end
