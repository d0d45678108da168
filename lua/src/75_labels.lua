---------------------------------------------------------------- a message in a line

-- What the other parts use; everything else is private to this one.
local label_of, quick_label, message_of

do
local ELLIPSIS, ARROW = "\226\128\166", "\226\134\146"
local LONGEST_TEXT = 48
-- Messages about the connection: their vbucket says nothing.
local OF_CONNECTION = { open = true, control = true, noop = true, buffer_ack = true }

local function cut(text)
  local clean = text:gsub("[^ -~]", ".")
  return #clean > LONGEST_TEXT and sub(clean, 1, LONGEST_TEXT) .. ELLIPSIS or clean
end

-- A number of 8 bytes in digits. Doubles are exact up to 2^53; beyond that an object of Wireshark's is.
local function digits_at(s, p, size)
  local number = number_at(s, p, size or 8)
  return number < 9007199254740992 and format("%.0f", number) or tostring(UInt64.new(number_at(s, p + 4, 4), number_at(s, p, 4)))
end

-- The number that a declared field of the extras holds, in digits, and its name where it has one; nil where the frame has
-- none, or not so many bytes.
local function number_of(head, s, p, have, name)
  local layout, at = head.fits[1], HEADER + head.framing
  for i = 1, layout and #head.fits == 1 and #layout.extras or 0 do
    local part = layout.extras[i]
    if part.name == name then
      if at + part.size > have then
        return nil
      elseif part.size == 8 then
        return digits_at(s, p + at)
      end
      local number = number_at(s, p + at, part.size)
      return format("%.0f", number), part.names and NAMES[part.names][number]
    end
    at = at + part.size
  end
end

-- The key of a frame, where its lengths fit together and all of it is there.
local function key_of(head, s, p, body, have)
  local at = HEADER + head.framing + head.extras
  local fits = at + head.key <= HEADER + body and have >= HEADER + body and not (head.flexible and head.framing == 0)
  return fits and sub(s, p + at, p + at + head.key - 1) or ""
end

-- Its value, under the same conditions.
local function value_of(head, s, p, body, have)
  local at = HEADER + head.framing + head.extras + head.key
  local fits = at <= HEADER + body and have >= HEADER + body and not (head.flexible and head.framing == 0)
  return fits and sub(s, p + at, p + HEADER + body - 1) or ""
end

local function document_key(head, s, p, body, have, collections)
  local key = show_keys and head.key > 0 and key_of(head, s, p, body, have) or ""
  if collections and head.shape and head.shape.document then
    key = sub(key, select(2, collection_of(key)) + 1)
  end
  return key ~= "" and ' "' .. cut(key) .. '"' or ""
end

local function named(field)
  return function(head, s, p, _, have)
    local number, name = number_of(head, s, p, have, field)
    return number and " " .. (name or number) or ""
  end
end

local function quoted_key(head, s, p, body, have)
  local key = key_of(head, s, p, body, have)
  return key ~= "" and ' "' .. cut(key) .. '"' or ""
end

-- By name: what is worth telling of a request beside its name and its vbucket.
local TOLD = {
  open = quoted_key,
  hello = quoted_key,
  control = function(head, s, p, body, have)
    local key = key_of(head, s, p, body, have)
    return key ~= "" and " " .. cut(key) .. "=" .. cut(value_of(head, s, p, body, have)) or ""
  end,
  buffer_ack = function(head, s, p, _, have)
    local bytes = number_of(head, s, p, have, "buffer_bytes")
    return bytes and " " .. bytes .. " bytes" or ""
  end,
  seqno_acknowledged = function(head, s, p, _, have)
    local seqno = number_of(head, s, p, have, "prepared_seqno")
    return seqno and " seqno " .. seqno or ""
  end,
  stream_request = function(head, s, p, _, have)
    local start = number_of(head, s, p, have, "start_seqno")
    return start and " from " .. start or ""
  end,
  snapshot_marker = function(head, s, p, body, have)
    local start, stop = number_of(head, s, p, have, "snap_start_seqno"), number_of(head, s, p, have, "snap_end_seqno")
    if not start and head.extras == 1 then -- later versions have them in the value
      local value = value_of(head, s, p, body, have)
      if #value >= 16 then
        start, stop = digits_at(value, 1), digits_at(value, 9)
      end
    end
    return start and stop and " " .. start .. " to " .. stop or ""
  end,
  stream_end = named("end_reason"),
  set_vbucket_state = named("vbucket_state"),
  oso_snapshot = named("oso_flags"),
}

local function seqno_of(head, s, p, have)
  if head.quick and have >= HEADER + 8 then -- it is the first of the extras
    return digits_at(s, p + HEADER)
  end
  local spec = head.spec
  if not spec or not spec.seqno or head.response and not head.drafted or (head.flexible and head.framing == 0) then
    return nil
  end
  return number_of(head, s, p, have, spec.seqno)
end

-- A message for people: name, vbucket, seqno, key, or whatever tells it from others of its kind. `asked` is the vbucket
-- that an answer's question was about.
function label_of(head, s, p, body, have, collections, asked)
  local name = head.name
  if head.status then
    local status = status_name(head.status) or format("0x%04x", head.status)
    if head.status == LIMITS.rollback and head.opcode == STREAM_REQUEST then
      local value = value_of(head, s, p, body, have)
      if #value == 8 then
        status = "rollback to " .. digits_at(value, 1)
      end
    end
    return name .. (asked and not OF_CONNECTION[name] and head.upr and format(" vb %d ", asked) or " ") .. ARROW .. " " .. status
  end
  local words = head.words
  if not words then
    words = name .. (head.upr and not OF_CONNECTION[name] and head.vbucket and format(" vb %d", head.vbucket) or "")
    head.words = words
  end
  if head.kind == DATA then
    local seqno = seqno_of(head, s, p, have)
    if seqno then
      words = words .. " seqno " .. seqno
    end
    return words .. document_key(head, s, p, body, have, collections)
  end
  local more = TOLD[name]
  return more and not head.fault and words .. more(head, s, p, body, have) or words
end

-- The same for a run of `times` whole frames, of which s has the first bytes of the first, and which are of a quick kind:
-- changes, with their seqnos first. Most packets have no other line than that, so it is made in few steps.
function quick_label(kind, s, collections, times)
  local k1, k2, extras, _, v1, v2, b1, b2, b3, b4 = byte(s, 3, 12)
  local a, b, c, d, e, f, g, h = byte(s, 25, 32)
  local key, vbucket = k1 * 256 + k2, v1 * 256 + v2
  local at = 25 + extras
  -- Where rules are not checked, it is unknown whether the lengths fit together.
  local text = show_keys and extras + key <= u32(b1, b2, b3, b4) and sub(s, at, at + key - 1) or ""
  if collections and kind.keyed and kind.keyed.document then
    text = sub(text, select(2, collection_of(text)) + 1)
  end
  if #text > LONGEST_TEXT or find(text, "[^ -~]") then
    text = cut(text)
  end
  if text == "" or a + b > 0 then
    local words = format("%s vb %d seqno %s", kind.info, vbucket, digits_at(s, 25))
    words = text == "" and words or words .. ' "' .. text .. '"'
    return times == 1 and words or words .. " " .. ELLIPSIS .. " x" .. times
  end
  local seqno = (((((c * 256 + d) * 256) + e) * 256 + f) * 256 + g) * 256 + h
  if times == 1 then
    return format('%s vb %d seqno %d "%s"', kind.info, vbucket, seqno, text)
  end
  return format('%s vb %d seqno %d "%s" \226\128\166 x%d', kind.info, vbucket, seqno, text, times)
end

-- The same message as the annotations of `uprscope check --annotate` name it: no key, nothing of its content. Seqnos are
-- at most 2^63-1 there. Looks at the frame closely: what it is may be what is wrong.
local LARGEST_SEQNO = "9223372036854775807"

function message_of(head, s, p, body, have, collections)
  examine(head, collections, s, p, body, have)
  local seqno
  for i = 1, head.spec and head.spec.seqno and R.fields or 0 do
    if R.parts[i].name == head.spec.seqno then
      seqno = digits_at(s, p + R.at[i], R.parts[i].size)
    end
  end
  if seqno and (#seqno > #LARGEST_SEQNO or (#seqno == #LARGEST_SEQNO and seqno > LARGEST_SEQNO)) then
    seqno = LARGEST_SEQNO
  end
  return head.name .. (head.response and " response" or "") .. (head.vbucket and format(" vb %d", head.vbucket) or "")
    .. (seqno and " seqno " .. seqno or "")
end

end
