---------------------------------------------------------------- one frame in the tree

-- What the other parts use; everything else is private to this one.
local exact, chosen, choose_fields, show

do
-- Whether the places of fields in the packet are shown. Every place is an object, and they are a third of what a frame
-- takes; only Wireshark's window shows them, and the forms of tshark that print bytes (the preference `places`).
exact = false
-- Where no tree is seen, the fields that are asked for, by name: by a filter, a column, tshark's -e. False where all are.
chosen = false
local DATATYPE = { name = "datatype", size = 1, flags = "datatype" }

-- Nothing is set where it is 0, and its bits are not worth their lines.
local function add_datatype(tree, tvb, at, head)
  if head.datatype == 0 then
    ADD(tree, F.datatype, RANGE(tvb, at, 1))
  else
    add_flags(tree, "datatype", DATATYPE, RANGE(tvb, at, 1), head.datatype)
  end
end

local function add_header(tree, tvb, o, head)
  ADD(tree, F.magic, RANGE(tvb, o, 1))
  local opcode = ADD(tree, F.opcode, RANGE(tvb, o + 1, 1))
  if head.drafted then
    opcode:set_text(format("Opcode: %s (0x%02x)", head.name, head.opcode))
  end
  if head.flexible then
    ADD(tree, F.framing_length, RANGE(tvb, o + 2, 1))
    ADD(tree, F.key_length, RANGE(tvb, o + 3, 1))
  else
    ADD(tree, F.key_length, RANGE(tvb, o + 2, 2))
  end
  ADD(tree, F.extras_length, RANGE(tvb, o + 4, 1))
  if head.drafted then
    ADD(tree, F.subtype, RANGE(tvb, o + 5, 1))
  else
    add_datatype(tree, tvb, o + 5, head)
  end
  if head.status then
    local item = ADD(tree, F.status, RANGE(tvb, o + 6, 2))
    if head.status ~= 0 then
      item:add_proto_expert_info(EXPERTS.status, "Refused: " .. (status_name(head.status) or "unknown status"))
    end
  else
    ADD(tree, F.vbucket, RANGE(tvb, o + 6, 2))
  end
  ADD(tree, F.body_length, RANGE(tvb, o + 8, 4))
  ADD(tree, F.opaque, RANGE(tvb, o + 12, 4))
  ADD(tree, F.cas, RANGE(tvb, o + 16, 8))
end

-- A key at offset `at`, whose first bytes are its collection's id where there is one. Its bytes are shown where the text
-- does not tell them.
local function add_key(tree, tvb, s, at, size, collection, collection_size)
  local text = show_keys and not collection and sub(s, at + 1, at + size)
  local told = text and not find(text, "[^ -~]")
  if told and not exact then
    ADD(tree, F.key, text)
    return
  end
  local range = RANGE(tvb, at, size)
  if not told then
    ADD(tree, F.key_bytes, range)
  end
  if collection then
    ADD(tree, F.collection_id, RANGE(tvb, at, collection_size), collection)
    range = size > collection_size and RANGE(tvb, at + collection_size, size - collection_size)
  end
  if show_keys and range then
    ADD(tree, F.key, range)
  end
end

-- What is known of the connection, in the first frame of a packet.
local dialect_shown

local function add_connection(tree, head, v, side, first)
  if first or head.dialect ~= dialect_shown then
    dialect_shown = head.dialect
    generated(tree, F.dialect, dialect_shown)
  end
  if first then
    if v.name then
      generated(tree, F.connection_name, v.name)
    end
    if v.era then
      generated(tree, F.era, v.era)
    end
    if v.producer then
      generated(tree, F.role, v.producer == side and "producer" or "consumer")
    end
  end
end

-- Fields that are made from the frame.
local function add_generated(tree, head, s, p, body, value, v, side, first)
  local a, b, c, d = byte(s, p + 12, p + 15)
  generated(tree, F.name, head.name)
  if head.response then
    generated(tree, F.response, true)
  end
  generated(tree, F.value_length, value)
  generated(tree, F.opaque_swapped, u32(d, c, b, a))
  generated(tree, F.flow_bytes, head.flow and HEADER + body + head.flow or 0)
  add_connection(tree, head, v, side, first)
end

-- A sound frame of a plain head has the fields of its layout at their places: made once per layout, they are a list of
-- field, offset and size. False where a field has a second name, or the header is the draft's.
local recipes = {}

local function recipe_of(head)
  local layout, seqno = head.fits[1], head.spec.seqno
  local list = recipes[layout]
  if not list then
    local at = HEADER
    list = { F.body_length, 8, 4, F.opaque, 12, 4, F.cas, 16, 8 }
    for _, part in ipairs(layout.extras) do
      list[#list + 1], list[#list + 2], list[#list + 3] = F[part.name], at, part.size
      at = at + part.size
    end
    recipes[layout] = list
  end
  head.recipe = not head.drafted and (not seqno or seqno == "by_seqno") and list
  return head.recipe
end

local function add_in_place(item, tvb, o, head, recipe)
  ADD(item, F.magic, RANGE(tvb, o, 1))
  ADD(item, F.opcode, RANGE(tvb, o + 1, 1))
  ADD(item, F.key_length, RANGE(tvb, o + 2, 2))
  ADD(item, F.extras_length, RANGE(tvb, o + 4, 1))
  add_datatype(item, tvb, o + 5, head)
  ADD(item, head.status and F.status or F.vbucket, RANGE(tvb, o + 6, 2))
  for i = 1, #recipe, 3 do
    ADD(item, recipe[i], RANGE(tvb, o + recipe[i + 1], recipe[i + 2]))
  end
end

-- Numbers without places, where a number is not an object anyway: field, place and size, in a row.
local function add_listed(item, tvb, o, list, s)
  local add = ADD
  for i = 1, #list, 3 do
    local at, size = o + list[i + 1], list[i + 2]
    if size == 4 then
      add(item, list[i], u32(byte(s, at + 1, at + 4)))
    elseif size == 1 then
      add(item, list[i], byte(s, at + 1))
    elseif size == 2 then
      local high, low = byte(s, at + 1, at + 2)
      add(item, list[i], high * 256 + low)
    else
      local a, b, c, d, e, f, g, h = byte(s, at + 1, at + 8)
      if a + b > 0 then
        add(item, list[i], RANGE(tvb, at, size)) -- a CAS, mostly: too large, and never the same again
      else
        add(item, list[i], object_of(u32(c, d, e, f) * 65536 + g * 256 + h))
      end
    end
  end
end

-- The same as add_in_place without places.
local function add_numbers(item, tvb, o, head, recipe, s)
  local add = ADD
  add(item, F.magic, head.magic)
  add(item, F.opcode, head.opcode)
  add(item, F.key_length, head.key)
  add(item, F.extras_length, head.extras)
  if head.datatype == 0 then
    add(item, F.datatype, 0)
  else
    add_datatype(item, tvb, o + 5, head)
  end
  add(item, head.status and F.status or F.vbucket, head.number)
  add_listed(item, tvb, o, recipe, s)
end

-- The value of a sound frame of a plain head.
local function add_plain_value(item, tvb, pinfo, head, at, size)
  if head.shape.body then
    add_document(item, tvb, pinfo, at, size, head.datatype)
  else
    ADD(item, F.value, RANGE(tvb, at, size))
  end
end

local function show_plain(tree, tvb, pinfo, o, head, recipe, s, v, side, body, first, title)
  local item = ADD(tree, upr, RANGE(tvb, o, HEADER + body), title)
  if exact then
    add_in_place(item, tvb, o, head, recipe)
  else
    add_numbers(item, tvb, o, head, recipe, s)
  end
  local at, size = o + HEADER + head.extras, head.key
  if size > 0 then
    if v.collections and head.document then
      add_key(item, tvb, s, at, size, byte(s, at + 1), 1)
    else
      add_key(item, tvb, s, at, size, nil, 0)
    end
  end
  local value = body - head.extras - size
  add_generated(item, head, s, o + 1, body, value, v, side, first)
  if head.fits[1].name ~= head.name then
    generated(item, F.layout, head.fits[1].name)
  end
  if value > 0 and show_values then
    add_plain_value(item, tvb, pinfo, head, at + size, value)
  end
  return item
end

---------------------------------------------------------------- one frame, of which only some fields are asked for

-- What is made of the value.
local OF_VALUE = { "value", "document", "inflated", "xattr.name", "xattr.value" }
local OF_KEY = { "key", "key_bytes", "collection_id" }
-- What the state of the connection adds: see Shown.state.
local OF_STATE = {
  "stream", "snapshot", "snapshot_start", "snapshot_end", "previous_seqno", "outstanding", "window", "response_in",
  "response_to", "response_time",
}

local function any_of(names)
  for _, name in ipairs(names) do
    if chosen[name] then
      return true
    end
  end
  return false
end

-- The fields that a tree asks for; it must not be visible, for then it asks for all.
function choose_fields(referenced)
  chosen = {}
  for name, field in pairs(F) do
    chosen[name] = referenced(field) or nil
    if chosen[name] and sub(name, 1, 9) == "datatype." then
      chosen.bits = true
    end
  end
  chosen.of_value, chosen.of_key, chosen.of_state = any_of(OF_VALUE), any_of(OF_KEY), any_of(OF_STATE)
end

-- Numbers of the header and of the extras that are asked for: field, place and size, in a row.
local function selection_of(head, recipe)
  local list, all = {}, { F.magic, 0, 1, F.opcode, 1, 1, F.key_length, 2, 2, F.extras_length, 4, 1, F.datatype, 5, 1 }
  local wanted = {}
  for name in pairs(chosen) do
    wanted[F[name] or false] = true
  end
  if chosen.bits then
    wanted[F.datatype] = nil
  end
  all[16], all[17], all[18] = head.status and F.status or F.vbucket, 6, 2
  for _, source in ipairs({ all, recipe }) do
    for i = 1, #source, 3 do
      if wanted[source[i]] then
        local n = #list
        list[n + 1], list[n + 2], list[n + 3] = source[i], source[i + 1], source[i + 2]
      end
    end
  end
  head.selection, head.selected_for = list, chosen
  return list
end

-- As show_plain, for trees that are not shown.
local function show_chosen(tree, tvb, pinfo, o, head, recipe, s, v, side, body, first)
  local item = ADD(tree, upr) -- its place is not shown either
  local list = head.selected_for == chosen and head.selection or selection_of(head, recipe)
  add_listed(item, tvb, o, list, s)
  if chosen.bits then
    add_datatype(item, tvb, o + 5, head)
  end
  local at, size = o + HEADER + head.extras, head.key
  if size > 0 and chosen.of_key then
    local collection = v.collections and head.document and byte(s, at + 1) or nil
    add_key(item, tvb, s, at, size, collection, collection and 1 or 0)
  end
  local value = body - head.extras - size
  if chosen.name then
    generated(item, F.name, head.name)
  end
  if chosen.value_length then
    generated(item, F.value_length, value)
  end
  if chosen.opaque_swapped then
    local a, b, c, d = byte(s, o + 13, o + 16)
    generated(item, F.opaque_swapped, u32(d, c, b, a))
  end
  if chosen.flow_bytes then
    generated(item, F.flow_bytes, head.flow and HEADER + body + head.flow or 0)
  end
  if chosen.response and head.response then
    generated(item, F.response, true)
  end
  if chosen.layout and head.fits[1].name ~= head.name then
    generated(item, F.layout, head.fits[1].name)
  end
  add_connection(item, head, v, side, first)
  if value > 0 and show_values and (chosen.of_value or json_wanted) then
    add_plain_value(item, tvb, pinfo, head, at + size, value)
  end
  return item
end

-- Everything about the frame at offset o of a tvb, of which `have` bytes are there, on a connection that was like v.
-- `first`: no other of its packet comes before it; `sound`: that is known already; `title`: its line.
function show(tree, tvb, pinfo, o, head, s, v, side, body, have, first, sound, title)
  if head.plain and (sound or is_sound(head, v.collections, s, o + 1, body, have)) then
    local recipe = head.recipe
    if recipe == nil then
      recipe = recipe_of(head)
    end
    if recipe and chosen then
      return show_chosen(tree, tvb, pinfo, o, head, recipe, s, v, side, body, first)
    elseif recipe then
      return show_plain(tree, tvb, pinfo, o, head, recipe, s, v, side, body, first, title)
    end
  end
  examine(head, v.collections, s, o + 1, body, have)
  local item = ADD(tree, upr, RANGE(tvb, o, have), title)
  add_header(item, tvb, o, head)
  for _, info in ipairs(R.infos) do
    ADD(item, F.frame_info, RANGE(tvb, o + info[2], info[3]), info[1])
  end
  for i = 1, R.fields do
    local part = R.parts[i]
    add_part(item, tvb, part.name, part, o + R.at[i])
    if head.spec and part.name == head.spec.seqno and part.name ~= "by_seqno" then
      generated(item, F.by_seqno, RANGE(tvb, o + R.at[i], part.size))
    end
  end
  if not R.layout and R.extras > 0 and R.fields == 0 and R.key_at <= have then
    ADD(item, F.extras, RANGE(tvb, o + R.extras_at, R.extras))
  end
  if R.key > 0 and R.key == head.key and R.key_at + R.key <= have then
    add_key(item, tvb, s, o + R.key_at, R.key, R.collection, R.collection_size)
  end
  for i = 1, R.defect_count do
    local defect = R.defects[i]
    local entry = generated(item, F.defect, defect)
    if not DEFECTS[defect].rule then
      entry:add_proto_expert_info(EXPERTS.defect, DEFECTS[defect].title)
    end
  end
  add_generated(item, head, s, o + 1, body, R.value, v, side, first)
  if R.layout and R.layout.name ~= head.name then
    generated(item, F.layout, R.layout.name)
  end
  if have < HEADER + body then
    generated(item, F.missing, HEADER + body - have)
  end
  add_value(item, tvb, pinfo, o, head, have)
  return item
end

end
