---------------------------------------------------------------- FRM: what is wrong with single frames

do
-- A frame's form needs no history: what was lost before does not matter. Not judged are frames that were searched for, what
-- depends on an agreement that may have been lost, and what upr and dcp see differently while it is open which is spoken.

-- Whether something that was agreed upon may not have been captured.
local function is_unsure(c)
  return not c.opened or c.damaged
end

local function maybe_newer(c)
  return c.hello_granted or at_least(c, 500) or is_unsure(c)
end

-- Whether frames of a connection may have been read in a wrong dialect. It is taken for dcp until a message says otherwise,
-- which one that was captured from its open on shows.
local function is_dialect_unknown(c, side)
  local spoken = Framing.settled(c)
  if c.dialect == "draft" or (c.dialect == "dcp" and not spoken and not is_unsure(c) and not unheard(c, side)) then
    return false
  end
  return spoken ~= c.dialect
end

local function depends_on_dialect(c, side, head, rule)
  local differing = RULE_BY_ID[rule] and RULE_BY_ID[rule].differing
  differing = differing and differing[c.dialect]
  for i = 1, differing and #differing or 0 do
    if differing[i] == head.opcode then
      return is_dialect_unknown(c, side)
    end
  end
  return false
end

---------------------------------------------------------------- forms that one dialect alone has

local FORMS_WAITING = 64 -- per connection
-- Sizes of extras of requests that upr has, and dcp does not.
local UPR_ALONE = {}
for _, message in ipairs(MESSAGES) do
  if message.dialect == "upr" and message.request then
    local of_dcp = {}
    for _, layout in ipairs(OPCODES.dcp[message.opcode] and OPCODES.dcp[message.opcode].request.layouts or {}) do
      of_dcp[layout.size] = true
    end
    for _, layout in ipairs(message.request.layouts) do
      UPR_ALONE[message.opcode * 256 + layout.size] = not of_dcp[layout.size] or nil
    end
  end
end

local function blame_form(form, spoken)
  if form.dialect ~= spoken then
    blame(form.n, "FRM-03", format("%s with %d bytes of extras, as %s has it; %s is spoken", form.name, form.extras, form.dialect, spoken))
  end
end

-- Frame n has the form of this dialect. Which one is spoken may be told later.
local function take_form(c, head, n, dialect)
  local spoken = Framing.settled(c)
  local form = { n = n, name = head.name, extras = head.extras, dialect = dialect }
  if spoken then
    blame_form(form, spoken)
    return
  end
  c.forms = c.forms or {}
  if #c.forms < FORMS_WAITING then
    c.forms[#c.forms + 1] = form
  end
end

function Framing.take_early(c, head, n)
  if not head.response and UPR_ALONE[head.opcode * 256 + head.extras] and Framing.settled(c) ~= "upr" then
    take_form(c, head, n, "upr")
  end
end

-- Judge the forms that wait, if it is settled now which dialect is spoken.
function Framing.settle(c)
  local spoken = Framing.settled(c)
  if spoken then
    for _, form in ipairs(c.forms) do
      blame_form(form, spoken)
    end
    c.forms = nil
  end
end

---------------------------------------------------------------- defects

local OTHER_DIALECT = "layout-of-other-dialect"
local CUT = { ["truncated-header"] = true, ["truncated-frame"] = true } -- what a frame has because bytes are missing

local function is_doubtful(c, side, head, rule, id)
  if rule == "FRM-07" then
    return id == "cas-zero" and Framing.key_only(c, R.value)
  elseif rule == "FRM-08" then
    if id == "unknown-flag-bits" and maybe_newer(c) then
      return true
    end
  elseif rule == "FRM-09" then
    return not c.agreed.hello_collections
  elseif rule == "FRM-10" and head.name ~= "system_event" then
    return c.agreed.open_no_value_with_underlying_datatype or (is_unsure(c) and floor(head.datatype / 2) % 2 == 1)
  end
  return depends_on_dialect(c, side, head, rule)
end

function Framing.blame_defects(c, side, head, n)
  if c.dialect == "draft" and c.damaged then
    return
  elseif c.dialect ~= "draft" and is_unsure(c) and Framing.settled(c, true) ~= c.dialect then
    if R.defects[1] == OTHER_DIALECT and R.defect_count == 1 then
      take_form(c, head, n, c.dialect == "upr" and "dcp" or "upr")
    end
    return
  end
  local done = {}
  for i = 1, R.defect_count do
    local id = R.defects[i]
    local spec = DEFECTS[id]
    local rule, odd = spec.rule, spec.severity == "warning"
    if rule == "FRM-14" and not (head.name == "cache_transfer" and not head.response) then
      rule = "FRM-05"
    end
    if id == OTHER_DIALECT then
      take_form(c, head, n, c.dialect == "upr" and "dcp" or "upr")
    elseif rule and spec.severity ~= "note" and not done[rule .. spec.severity] then
      done[rule .. spec.severity] = true
      if not CUT[id] and not is_doubtful(c, side, head, rule, id) then
        blame(n, rule, head.name .. ": " .. spec.title .. (R.details[i] ~= "" and " (" .. R.details[i] .. ")" or ""), odd and "warning" or nil, R.guilty[i])
      end
    end
  end
end

-- Whether this may be a stream of keys alone, whose items come from disk with CAS 0; they have no value.
function Framing.key_only(c, value)
  local agreed = c.agreed
  return agreed.open_no_value and not (agreed.open_include_xattrs or agreed.open_include_deleted_user_xattrs)
    or (value <= 0 and is_unsure(c))
end

-- Rules about single frames that no defect stands for.
function Framing.blame_oddities(c, side, head, n, s, p)
  if head.flexible and not head.drafted and not is_unsure(c) and not c.hello_granted and not c.agreed.enable_stream_id then
    blame(n, "FRM-02", "flexible framing without HELLO and without stream ids: of servers before 6.5")
  end
  if head.opcode == SNAPSHOT_MARKER and not head.response and head.extras == 1 then
    local version = field_value(s, p, "marker_version")
    if (version == 0 and R.value ~= 36) or (version == 2 and R.value ~= 52) then
      blame(n, "FRM-11", format("a marker of version %d with a value of %d bytes", version, R.value))
    end
  end
  if R.nmeta > 0 and at_least(c, 500) and not is_unsure(c) and not c.agreed.enable_ext_metadata then
    blame(n, "FRM-12", format("nmeta %d, from a server of 5.0 or later, where it is 0", R.nmeta))
  end
  if (head.opcode == STREAM_REQUEST or head.opcode == ADD_STREAM) and not head.response and c.dialect == "dcp" then
    local flags = field_value(s, p, "stream_flags")
    if flags and flags >= 512 and not maybe_newer(c) and not depends_on_dialect(c, side, head, "FRM-08") then
      blame(n, "FRM-08", format("stream flags 0x%x, of which some have no name", floor(flags)), nil, "stream_flags")
    end
  end
end

end
