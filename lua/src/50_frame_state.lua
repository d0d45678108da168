---------------------------------------------------------------- what is remembered of frames, for every later pass

-- What the other parts use; everything else is private to this one.
local RULE_BY_ID, keeping, kept_limit, verdicts, snapshots, previous_seqnos, outstandings, links, blame, forget,
  prepare_state, lose, unsynced, at_least, unheard, pace_collector, expect_short_lives

do
-- Frames get ordinals as they come on the first pass; what is to be shown of one later is kept by its ordinal.
-- Wireshark goes over a capture again and again, in any order: each frame has to look as it did when it came.

kept_limit = 8000000 -- a preference; beyond so many frames later passes show what frames themselves say
keeping = true -- whether the frames of the packet in hand are shown, now or later
verdicts = {} -- ordinal to a list: rule, severity, sentence, the field that is wrong or false, rule, ...
snapshots = {} -- ordinal to the marker in force, or to the stream where there is none
previous_seqnos, outstandings, links = {}, {}, {}

RULE_BY_ID = {}
for _, rule in ipairs(RULES) do
  RULE_BY_ID[rule.id] = rule
end

function blame(n, rule, sentence, severity, field)
  local list, known = verdicts[n], RULE_BY_ID[rule]
  if not known or not known.checked or (n > kept_limit and n < tracked) then
    return
  elseif not list then
    list = {}
    verdicts[n] = list
  end
  local size = #list
  list[size + 1], list[size + 2], list[size + 3], list[size + 4] = rule, severity or known.severity, sentence, field or false
end

-- A frame beyond what is kept has been shown.
function forget(n)
  verdicts[n], snapshots[n], previous_seqnos[n], outstandings[n], links[n] = nil, nil, nil, nil, nil
end

-- Wireshark's objects live as long as a packet: thousands die before a collection pays. So Lua may leave as much lying
-- around as is in use, but at least `garbage` and at most MOST_GARBAGE kilobytes.
local garbage, MOST_GARBAGE = 98304, 131072
local used_before, alive = 0, nil
-- Since Lua 5.4 (Wireshark 4.4) hardly anything is in use, and what collecting costs is calling back Wireshark for each
-- object and giving its memory back. Where tshark makes no fields that is put off until so many kilobytes lie around, and
-- then done at once: neither small steps nor generations come close. With fields there are many times as many objects, and
-- steps are better, if as much may lie around. The window must not wait for it.
local PUT_OFF = 196608
if _VERSION >= "Lua 5.4" then
  garbage, MOST_GARBAGE = PUT_OFF, PUT_OFF
end

local stopped = false

local function collect_at_last(used)
  if not stopped then
    collectgarbage("stop")
    stopped = true
  end
  if used > (alive or 1) + PUT_OFF then
    collectgarbage("collect")
    alive = max(collectgarbage("count"), 1)
  end
end

-- Called now and then: where less is in use than the last time, a collection has come to its end.
function pace_collector(in_steps)
  local used = max(collectgarbage("count"), 1)
  if _VERSION >= "Lua 5.4" and not in_steps then
    collect_at_last(used)
    return
  elseif stopped then
    collectgarbage("restart")
    stopped, alive = false, nil
  end
  if not alive or used < used_before then
    alive = used
    local percent = floor(min(1000, 100 + 100 * max(garbage, min(alive, MOST_GARBAGE)) / alive))
    pcall(collectgarbage, "setpause", percent)
    pcall(collectgarbage, "setmajorinc", percent) -- Lua 5.2 frees Wireshark's objects in its major collections alone
  end
  used_before = used
end

-- tshark prints every field: dozens of objects per message, and all are dead by the next packet. Lua 5.2 has a collector
-- for that, with which it takes two thirds of the time. Later versions need it less, for with them tshark makes only the
-- fields that were asked for.
function expect_short_lives()
  if _VERSION == "Lua 5.2" and pcall(collectgarbage, "generational") then
    garbage, alive = 8192, nil
    pace_collector()
  end
end

-- Whether a connection's producer is of this release or a later one, by what it said and what it agreed to.
function at_least(c, since)
  return c.since >= since or (c.agreed_since or 0) >= since
end

---------------------------------------------------------------- losses

-- Whether a packet's sender had received more of the other side than was seen here: TCP may be waiting for lost bytes.
function unheard(c, side)
  local found = ack_field and ack_field()
  local seen = c.lanes[3 - side].seen
  local more = found and seen and (found() - seen) % TCP_SPAN or 0
  return more > 0 and more < TCP_SPAN / 2
end

function prepare_state(c)
  c.waiting, c.waiting_count, c.answered, c.answered_count = {}, 0, {}, 0
  c.streams, c.agreed, c.orphans = { {}, {} }, {}, {}
  c.stream_list, c.last = {}, {}
  c.sent, c.returned, c.outstanding, c.noops, c.noops_before = 0, 0, 0, 0, 0
  c.largest, c.sluggish_until, c.sluggish_bytes, c.ahead = 0, -1, 0, 0
end

-- Bytes of a side are missing before the next frame: nothing that was expected of it holds any more. `torn`: nor is it
-- known where that frame starts. It is searched for, and may be none.
function lose(c, side, torn)
  c.doubt[side] = tracked + 1
  c.damaged, c.ahead = true, 0
  if torn then
    c.searched[side], c.torn[side], c.unconfirmed[side] = tracked + 1, true, LIMITS.confirm
  end
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
  lose(c, side, true)
end

end
