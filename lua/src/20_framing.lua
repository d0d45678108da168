---------------------------------------------------------------- which bytes can be a header

-- What the other parts use; everything else is private to this one.
local search, is_ours, body_limit, starts, legal

do
-- Everything here is a function of the bytes alone, so that every pass over a capture comes to the same answer.

-- By opcode and extras length, what a request may have: lists of key rule and value rule.
local REQUEST_RULES, PUSH_RULES, KNOWN_OPCODES = {}, {}, {}
for _, message in ipairs(MESSAGES) do
  local dialect, shape = message.dialect, message.request
  if dialect == "upr" or dialect == "dcp" or dialect == "memcached" then
    KNOWN_OPCODES[message.opcode] = true
    if shape then
      local rules = message.server_push and PUSH_RULES or REQUEST_RULES
      local sizes = {}
      for _, layout in ipairs(shape.layouts) do
        sizes[layout.size] = true
      end
      for size = 0, #shape.layouts == 0 and LIMITS.answer_extras or -1 do
        sizes[size] = true
      end
      for size in pairs(sizes) do
        local key = message.opcode * 256 + size
        rules[key] = rules[key] or {}
        rules[key][#rules[key] + 1] = { shape.key, shape.value }
      end
    end
  end
end

local function allows(rule, size)
  return rule == "may" or (rule == "must") == (size > 0)
end

body_limit = LIMITS.body -- a preference

-- The length of the frame whose strictly legal header starts at place p; nil when it is none. At least 24 bytes are
-- there.
function legal(s, p)
  local m, opcode, k1, k2, extras, datatype, n1, n2, b1, b2, b3, b4 = byte(s, p, p + 11)
  local magic = MAGICS[m]
  if not b4 or not magic or datatype > FLAGS.datatype.all then
    return nil
  end
  local body, number = u32(b1, b2, b3, b4), n1 * 256 + n2
  if body > body_limit then
    return nil
  end
  local framing, key = 0, k1 * 256 + k2
  if magic.flexible then
    framing, key = k1, k2
  end
  local value = body - framing - extras - key
  if value < 0 or key > LIMITS.key then
    return nil
  end
  if magic.response then
    if KNOWN_OPCODES[opcode] and extras <= LIMITS.answer_extras and status_name(number) then
      return body + HEADER
    end
    return nil
  end
  local rules = (magic.push and PUSH_RULES or REQUEST_RULES)[opcode * 256 + extras]
  if not rules or number >= LIMITS.vbuckets then
    return nil
  end
  for i = 1, #rules do
    if allows(rules[i][1], key) and allows(rules[i][2], value) then
      return body + HEADER
    end
  end
  return nil
end

local LONE_FRAME = 1048576 -- a header that nothing can confirm is believed up to this length

-- The length of the frame whose header at place p would do where one must be: a magic, and lengths that fit together.
local function plausible(s, p)
  local m, _, k1, k2, extras, _, _, _, b1, b2, b3, b4 = byte(s, p, p + 11)
  local magic = MAGICS[m]
  if not b4 or not magic then
    return nil
  end
  local body = u32(b1, b2, b3, b4)
  local parts = extras + (magic.flexible and k1 + k2 or k1 * 256 + k2)
  return parts <= body and body <= LIMITS.body and body + HEADER or nil
end

-- Whether the very first bytes of a direction start with a header, of which the next one decides where it is not legal.
function starts(s)
  if #s < HEADER then
    return MAGICS[byte(s, 1)] ~= nil
  elseif legal(s, 1) then
    return true
  end
  local total = plausible(s, 1)
  return total ~= nil and (total == #s or (total + HEADER <= #s and plausible(s, total + 1) ~= nil))
end

-- How many headers in a row are legal from place p on, up to what is wanted; 0 when something speaks against them.
local function chain(s, p, wanted)
  local length, count = #s, 0
  while count < wanted do
    if p == length + 1 then
      return wanted -- ends exactly where the bytes end
    elseif p > length then
      return count
    elseif p + HEADER - 1 > length then
      return MAGICS[byte(s, p)] and wanted or 0
    end
    local total = legal(s, p)
    if not total then
      return 0
    end
    count = count + 1
    p = p + total
  end
  return count
end

-- Whether a header at place p can be believed where none is known to start. `cut`: nothing will come after the bytes.
local function believable(s, p, cut)
  local total = legal(s, p)
  if not total then
    return false
  end
  local count = chain(s, p, LIMITS.confirm)
  return count > 1 or (count == 1 and not cut and total < LONE_FRAME)
end

local MAGIC_SET = "["
for m = 0, 255 do
  if MAGICS[m] then
    MAGIC_SET = MAGIC_SET .. "%" .. string.char(m)
  end
end
MAGIC_SET = MAGIC_SET:gsub("%%([\128-\255\001-\031])", "%1") .. "]"

-- Search from place p on; a packet that was cut may start with a header whose frame goes beyond it. Returns the place of
-- a header, or nil and the place of a last few bytes that may begin one.
function search(s, p, cut)
  local length = #s
  if cut and p == 1 and length >= HEADER and (legal(s, 1) or 0) > length then
    return 1
  end
  while true do
    p = find(s, MAGIC_SET, p)
    if not p then
      return nil, nil
    end
    if p + HEADER - 1 > length then
      local _, opcode = byte(s, p, p + 1)
      if not opcode or KNOWN_OPCODES[opcode] then
        return nil, p
      end
    elseif believable(s, p, cut) then
      return p
    end
    p = p + 1
  end
end

-- Whether a tvb of an unknown connection is one of ours: headers from its first byte on, or some in a row further in.
function is_ours(s)
  if #s < HEADER then
    return false
  end
  if legal(s, 1) and chain(s, 1, LIMITS.confirm) > 0 then
    return true
  end
  local p = 2
  while true do
    p = find(s, MAGIC_SET, p)
    if not p or p + HEADER - 1 > #s then
      return false
    end
    if legal(s, p) then
      local count, q = 0, p
      while q + HEADER - 1 <= #s and count < LIMITS.confirm do
        local total = legal(s, q)
        if not total then
          break
        end
        count, q = count + 1, q + total
      end
      if count >= LIMITS.confirm or (count > 1 and q == #s + 1) then
        return true
      end
    end
    p = p + 1
  end
end

end
