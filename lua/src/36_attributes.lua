---------------------------------------------------------------- attributes of Wireshark's objects

-- What the other parts use; everything else is private to this one.
local getter_of, setter_of

do
-- For each `pinfo.number` Wireshark searches for the name, which takes longer than what it then calls. That function is
-- looked up once, and called by itself from then on: where it is at hand, and does what the attribute does.

local function found_in(object, list_name, name)
  local reached, list = pcall(function() return getmetatable(object)[list_name] end)
  local found = reached and type(list) == "table" and list[name]
  return type(found) == "function" and found or nil
end

-- A function that reads an attribute of this object and of all others of its class.
function getter_of(object, name)
  local get = found_in(object, "__getters", name)
  if get then
    local works, value = pcall(get, object)
    local expected = object[name]
    if works and type(value) == type(expected) and (value == expected or type(value) == "userdata") then
      return get
    end
  end
  return function(each) return each[name] end
end

-- Sets an attribute, and returns a function that does so from then on.
function setter_of(object, name, value)
  local set = found_in(object, "__setters", name)
  if set and pcall(set, object, value) and object[name] == value then
    return set
  end
  object[name] = value
  return function(each, given) each[name] = given end
end

end
