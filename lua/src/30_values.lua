---------------------------------------------------------------- values: JSON, snappy, collection ids

-- What the other parts use; everything else is private to this one. Nothing here knows what a message is.
local is_json, unsnappy, collection_of

do
-- JSON, as strictly as the documents ask for it; only the messages whose value must be JSON are held to it. Also returns
-- the numbers that are members of the outermost object, by name.
function is_json(s)
  local p, depth, limit, numbers = 1, 0, 200, {}
  local value
  local function space()
    p = find(s, "[^ \t\r\n]", p) or #s + 1
  end
  local function text()
    p = p + 1
    while true do
      local q = find(s, '["\\%c]', p)
      if not q then
        return false
      end
      local c = sub(s, q, q)
      if c == '"' then
        p = q + 1
        return true
      elseif c == "\\" then
        local escape = sub(s, q + 1, q + 1)
        if escape == "u" and find(s, "^%x%x%x%x", q + 2) then
          p = q + 6
        elseif escape ~= "" and find('"\\/bfnrt', escape, 1, true) then
          p = q + 2
        else
          return false
        end
      elseif byte(c) == 127 then
        p = q + 1
      else
        return false
      end
    end
  end
  local function list(close, keyed)
    depth = depth + 1
    if depth > limit then
      return nil
    end
    p = p + 1
    space()
    if sub(s, p, p) == close then
      p, depth = p + 1, depth - 1
      return true
    end
    while true do
      local name
      if keyed then
        space()
        local from = p
        if sub(s, p, p) ~= '"' or not text() then
          return false
        end
        name = depth == 1 and sub(s, from + 1, p - 2)
        space()
        if sub(s, p, p) ~= ":" then
          return false
        end
        p = p + 1
      end
      space()
      local from = p
      local good = value()
      if not good then
        return good
      elseif name then
        numbers[name] = tonumber(string.match(sub(s, from, p - 1), "^-?%d[%d.eE+-]*$") or "")
      end
      space()
      local c = sub(s, p, p)
      p = p + 1
      if c == close then
        depth = depth - 1
        return true
      elseif c ~= "," then
        return false
      end
    end
  end
  function value()
    space()
    local c = sub(s, p, p)
    if c == "{" then
      return list("}", true)
    elseif c == "[" then
      return list("]", false)
    elseif c == '"' then
      return text()
    end
    local stop = select(2, find(s, "^-?%d+", p))
    if stop then
      if find(s, "^-?0%d", p) then
        return false
      end
      stop = select(2, find(s, "^%.%d+", stop + 1)) or stop
      stop = select(2, find(s, "^[eE][+-]?%d+", stop + 1)) or stop
      p = stop + 1
      return true
    end
    for _, word in ipairs({ "true", "false", "null" }) do
      if sub(s, p, p + #word - 1) == word then
        p = p + #word
        return true
      end
    end
    return false
  end
  local good = value()
  if good == nil then
    return true, {} -- nested deeper than is worth checking
  end
  space()
  return good and p > #s, numbers
end

-- Bytes that were made before, from offset `from` on.
local function copied(out, starts_at, count, from, length)
  local low, high = 1, count
  while low < high do
    local middle = floor((low + high + 1) / 2)
    if starts_at[middle] <= from then
      low = middle
    else
      high = middle - 1
    end
  end
  local first = from - starts_at[low]
  local piece = sub(out[low], first + 1, first + length)
  while #piece < length do
    low = low + 1
    piece = piece .. sub(out[low], 1, length - #piece)
  end
  return piece
end

-- One raw snappy block; nil and a defect when it is none.
function unsnappy(s, limit)
  local size, p, shift = 0, 1, 1
  while true do
    local b = byte(s, p)
    if not b or shift > 268435456 then
      return nil, "snappy-invalid"
    end
    size, shift, p = size + b % 128 * shift, shift * 128, p + 1
    if b < 128 then
      break
    end
  end
  if size > limit then
    return nil, "snappy-too-large"
  elseif size > 32 * #s then
    return nil, "snappy-invalid"
  end
  -- Pieces and where each starts: a copy takes what it needs from them, so that no byte is moved twice for nothing.
  local out, starts_at, count, made = {}, {}, 0, 0
  while p <= #s do
    local tag = byte(s, p)
    local kind = tag % 4
    p = p + 1
    if kind == 0 then
      local length = floor(tag / 4) + 1
      if length > 60 then
        local bytes = length - 60
        if p + bytes - 1 > #s then
          return nil, "snappy-invalid"
        end
        length = 1
        local unit = 1
        for i = 0, bytes - 1 do
          length, unit = length + byte(s, p + i) * unit, unit * 256
        end
        p = p + bytes
      end
      if p + length - 1 > #s or made + length > size then
        return nil, "snappy-invalid"
      end
      count = count + 1
      out[count], starts_at[count] = sub(s, p, p + length - 1), made
      p, made = p + length, made + length
    else
      local length, back
      if kind == 1 then
        local low = byte(s, p)
        if not low then
          return nil, "snappy-invalid"
        end
        length, back, p = floor(tag / 4) % 8 + 4, floor(tag / 32) * 256 + low, p + 1
      else
        local bytes = kind == 2 and 2 or 4
        if p + bytes - 1 > #s then
          return nil, "snappy-invalid"
        end
        length, back = floor(tag / 4) + 1, 0
        for i = bytes - 1, 0, -1 do
          back = back * 256 + byte(s, p + i)
        end
        p = p + bytes
      end
      if back == 0 or back > made or made + length > size then
        return nil, "snappy-invalid"
      end
      local piece = copied(out, starts_at, count, made - back, min(back, length))
      while #piece < length do
        piece = piece .. sub(piece, 1, length - #piece)
      end
      count = count + 1
      out[count], starts_at[count], made = piece, made, made + length
    end
  end
  if made ~= size then
    return nil, "snappy-invalid"
  end
  return concat(out, "", 1, count)
end

-- The collection id in front of a key: its number and size; size 0 when it is malformed or not in its shortest form.
function collection_of(key)
  local id, unit = 0, 1
  for i = 1, min(#key, 5) do
    local b = byte(key, i)
    id, unit = id + b % 128 * unit, unit * 128
    if b < 128 then
      if (b ~= 0 or i == 1) and id < WORD then
        return id, i
      end
      return 0, 0
    end
  end
  return 0, 0
end

end
