---------------------------------------------------------------- findings that a capture brings along

-- What the other parts use; everything else is private to this one.
local Notes = {
  over = {}, -- annotated packets that are over with a message that began in an earlier one
}

do
-- `uprscope check --annotate` writes what it found into packet comments. One of them is
--   RULE SEVERITY ROLE, MESSAGE: SENTENCE [uprscope FINDING; ROLE PACKET, ROLE PACKET, ...; CHECK]
-- Anybody may write comments, so nothing of one is believed that does not fit: the check is right, the rule is known, and
-- this packet has this role in the list. A comment that was moved to another packet, as by cutting a capture, is none.
local FORM = "^(%u%u%u%-%d%d) (%l+) ([%l_]+), ([%l%d_ ]+): (.*) %[uprscope (%u%u%u%-%d%d%-%x+); ([%l%d_, ]+); (%x%x%x%x%x%x%x%x)%]$"
local CLOSING = 11 -- bytes of "; CHECK]"
local LONGEST, MOST, MOST_PACKETS = 2000, 64, 32
local SEVERITY_NAMES = { error = true, warning = true, info = true }

local function check_of(text)
  local h = 5381
  for i = 1, #text do
    h = (h * 33 + byte(text, i)) % 4294967296
  end
  return format("%08x", h)
end

-- The packets of a finding with their roles; nil where something is no packet, or this one does not have that role.
local function packets_in(list, role, number)
  local packets, listed, is_ours = {}, { [number] = true }, false
  for each in list:gmatch("[^,]+") do
    local what, digits = each:match("^ ?([%l_]+) (%d+)$")
    local packet = digits and #digits < 10 and tonumber(digits)
    if not packet or packet < 1 or #packets >= MOST_PACKETS then
      return nil
    end
    is_ours = is_ours or (what == role and packet == number)
    if not listed[packet] then
      packets[#packets + 1], listed[packet] = packet, true
    end
  end
  return is_ours and packets or nil
end

local function read(text, number)
  if #text > LONGEST then
    return nil
  end
  local rule, severity, role, message, sentence, finding, list, check = text:match(FORM)
  if not rule or not RULE_BY_ID[rule] or not SEVERITY_NAMES[severity] or sub(finding, 1, 6) ~= rule
    or check_of(sub(text, 1, #text - CLOSING)) ~= check then
    return nil
  end
  local packets = packets_in(list, role, number)
  return packets and {
    rule = rule, severity = severity, guilty = role == "guilty", role = role, message = message, sentence = sentence,
    finding = finding, packets = packets,
  }
end

-- What the comments of a packet say about findings; nil where they say nothing.
function Notes.of(number)
  local found
  local comments = { Notes.field() }
  for i = 1, min(#comments, MOST) do
    local fine, note = pcall(read, tostring(comments[i].value or ""), number)
    if fine and note then
      found = found or {}
      found[#found + 1] = note
    end
  end
  return found
end

end
