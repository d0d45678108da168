---------------------------------------------------------------- the protocol and its fields

local ok, upr = pcall(Proto, "upr", TITLE)
if not ok then
  return -- loaded twice: once is enough
end

-- What the other parts use; everything else is private to this one.
local F, EXPERTS, in_window

do
local FIELD_ORDER = {}
F = {}
local BASES = { DEC = base.DEC, HEX = base.HEX, NONE = base.NONE }
local FRAME_KINDS = { REQUEST = frametype.REQUEST, RESPONSE = frametype.RESPONSE, NONE = frametype.NONE }

for _, row in ipairs(SPEC.FIELDS) do
  local abbreviation, make = "upr." .. row.name, ProtoField[row.type]
  local field
  if row.type == "bool" then
    field = row.mask and make(abbreviation, row.title, row.width, nil, row.mask, row.doc) or make(abbreviation, row.title, base.NONE)
  elseif row.type == "framenum" then
    field = make(abbreviation, row.title, base.NONE, FRAME_KINDS[row.base], 0, row.doc)
  elseif row.type == "string" or row.type == "bytes" then
    field = make(abbreviation, row.title, base.NONE, row.doc)
  elseif row.type == "double" then
    field = make(abbreviation, row.title, row.doc)
  else
    local names = row.names and NAMES[row.names]
    if row.name == "magic" then
      names = {}
      for value, magic in pairs(MAGICS) do
        names[value] = magic.name
      end
    elseif row.name == "opcode" then
      names = {}
      for opcode, message in pairs(DCP) do
        names[opcode] = message.name
      end
    end
    field = make(abbreviation, row.title, BASES[row.base], names, nil, row.doc)
  end
  F[row.name] = field
  FIELD_ORDER[#FIELD_ORDER + 1] = field
end
upr.fields = FIELD_ORDER

local SEVERITIES = { error = expert.severity.ERROR, warning = expert.severity.WARN, info = expert.severity.CHAT, note = expert.severity.NOTE }
local EXPERT_ORDER = {}
EXPERTS = {}

local function declare(id, name, title, severity, group)
  local item = ProtoExpert.new("upr.expert." .. name, title, group, severity)
  EXPERTS[id] = item
  EXPERT_ORDER[#EXPERT_ORDER + 1] = item
end

for _, rule in ipairs(RULES) do
  local group = sub(rule.id, 1, 3) == "FRM" and expert.group.MALFORMED or expert.group.SEQUENCE
  declare(rule.id, rule.id:lower():gsub("-", "_"), rule.id .. ": " .. rule.title, SEVERITIES[rule.severity], group)
end
declare("evidence", "evidence", "Proves a finding", expert.severity.NOTE, expert.group.COMMENTS_GROUP)
declare("status", "status", "Refused", expert.severity.NOTE, expert.group.RESPONSE_CODE)
declare("defect", "defect", "Odd, but known", expert.severity.NOTE, expert.group.PROTOCOL)
declare("kept", "kept", "No more frames are remembered for later passes", expert.severity.NOTE, expert.group.PROTOCOL)
declare("unsynced", "unsynced", "Bytes skipped: no message starts here", expert.severity.NOTE, expert.group.REASSEMBLE)
upr.experts = EXPERT_ORDER

end
