---------------------------------------------------------------- the Info column

-- What the other parts use; everything else is private to this one.
local Info = {} -- Lua has room for 200 local variables in a file: what is called once a packet stands in tables

do
-- The messages of a packet as runs of one name: the first of a run is told, and how many they are.
local RUNS_TOLD = 12
local TIMES, MORE = " \226\128\166 x", ", \226\128\166"
local names, counts, labels, total = {}, {}, {}, 0
local kinds, bytes, collections = {}, {}, {} -- of runs whose label is made when it is known how many they are
local written -- the words in the column, where it was this packet that wrote them
local promised = false -- the protocol is in its column, and the words are to come

-- Whether anybody sees the column: tshark has none where it prints no list, and then says its name in brackets.
local watched = true

function Info.look(pinfo)
  watched = in_window or tostring(pinfo.cols.info) ~= "(info)"
  return watched
end

-- A packet begins.
function Info.begin()
  total, written, promised = 0, nil, false
end

-- So many more messages of a name. Returns true where a run begins that is to be told: see Info.tell.
function Info.count(name, times)
  if not watched then
    return false
  elseif names[total] == name and total > 0 then
    counts[total] = counts[total] + times
    return false
  end
  total = total + 1
  names[total], counts[total], labels[total] = name, times, name
  return total <= RUNS_TOLD
end

function Info.tell(label)
  labels[total] = label
end

-- The same for a run of a quick kind; s has the first bytes of its first frame.
function Info.tell_quick(kind, s, with_collections)
  labels[total] = false
  kinds[total], bytes[total], collections[total] = kind, s, with_collections
end

local function words_of(i)
  local times, label = counts[i], labels[i]
  if not label then
    return quick_label(kinds[i], bytes[i], collections[i], times)
  end
  return times == 1 and label or label .. TIMES .. times
end

local COLUMNS -- looked up once

-- TCP keeps what the bytes of a message that it had put together made of the column, so that the rest of the packet writes
-- after it. Returns what stood there before our words.
local function take_back(info)
  local text = tostring(info)
  local before = #text - #written
  info:clear_fence()
  return before > 0 and sub(text, before + 1) == written and sub(text, 1, before) or ""
end

-- One packet may come as several tvbs: each writes all that is known by then, over whatever other dissectors wrote. Where
-- it is known that another comes, it is left to that: `more`.
function Info.write(pinfo, protocol, more)
  local words
  if not watched then
    return
  end
  COLUMNS = COLUMNS or getter_of(pinfo, "cols")
  if more and not written then
    local columns = COLUMNS(pinfo)
    columns.protocol, columns.info = protocol, "" -- TCP keeps what is there
    promised = true
    return
  elseif total == 1 then
    words = words_of(1)
  elseif total == 0 then
    return
  else
    local parts = {}
    for i = 1, min(total, RUNS_TOLD) do
      parts[i] = words_of(i)
    end
    words = concat(parts, ", ") .. (total > RUNS_TOLD and MORE or "")
  end
  local columns = COLUMNS(pinfo)
  if not promised then
    columns.protocol = protocol
  end
  columns.info = written and take_back(columns.info) .. words or words
  written = words
end

end
