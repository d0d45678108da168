---------------------------------------------------------------- flow control

-- What the other parts use; everything else is private to this one.
local take_counted, take_ack

do
function take_counted(c, side, head, body, n, pinfo)
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
  if c.outstanding >= full and c.opened and not c.damaged and not c.uncounted and not unheard(c, side) then
    blame(n, "FLC-02", format("%.0f bytes are outstanding in a window of %.0f, and more is sent", c.outstanding, c.window))
  end
  outstandings[n] = c.outstanding
  if early and c.freed then
    c.freed = false -- held back until the ack, and sent uncounted
  else
    local back = min(c.ahead, size) -- was given back already
    c.ahead, c.outstanding = c.ahead - back, c.outstanding + size - back
  end
end

function take_ack(c, side, s, p, n, time)
  local bytes = field_value(s, p, "buffer_bytes")
  c.flow_side = c.flow_side or 3 - side
  if c.flow_side == side then
    return
  end
  if bytes == 0 and c.dialect ~= "draft" then
    blame(n, "FLC-07", "0 bytes are given back")
  end
  local known = c.opened and not c.damaged
  -- A request may be missing only where frames of this side are.
  if bytes and not c.window_asked and c.opened and not c.torn[side] then
    blame(n, "FLC-06", format("%.0f bytes are given back, and no connection_buffer_size was set", bytes))
  end
  bytes = bytes or 0
  if (c.window or -1) > 0 then
    local due = c.sent - c.returned
    local excess = bytes - due
    if excess > 0 then
      local counted_noops = excess == 24 * (c.noops - c.noops_before) or excess == 24 * c.noops
      if known and not c.uncounted and not counted_noops and not unheard(c, side) then
        blame(n, "FLC-01", format("%.0f bytes are given back, and only %.0f had arrived and were not given back yet", bytes, due))
      end
    end
    if unheard(c, side) and not c.damaged then -- what is given back had arrived, and is still to come here
      c.returned = c.returned + bytes
      c.ahead = c.ahead + max(bytes - c.outstanding, 0)
      c.outstanding = max(c.outstanding - bytes, 0)
    else
      c.returned = c.returned + min(bytes, due)
      if bytes > c.outstanding then
        c.sluggish_until, c.sluggish_bytes = time + 1, 0
      end
      c.outstanding = max(c.outstanding - bytes, 0)
    end
    c.freed = true
  end
  c.noops_before = c.noops
  outstandings[n] = c.outstanding
end

end
