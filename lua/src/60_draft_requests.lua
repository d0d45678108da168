---------------------------------------------------------------- questions and answers of the draft

local take_draft

do
-- Draft requests are told apart by opaque and vbucket; negative, so that no other question has the same key.
local function draft_key(side, opaque, vbucket)
  return -((opaque * 65536 + vbucket) * 4 + side)
end

function take_draft(c, side, head, s, p, body, n, number, time)
  local opaque = number_at(s, p + 12, 4)
  if not head.response then
    c.opened = c.opened or n
    local key = draft_key(side, opaque, head.number)
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
  local key = draft_key(3 - side, opaque, head.number)
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
    if c.opened and not c.damaged and not unheard(c, side) then
      blame(n, "OPQ-01", c.answered[key] and "a second answer to one request" or "an answer to no request")
    end
    if name == "stream_ok" then
      lose(c, side)
    end
  end
end

end
