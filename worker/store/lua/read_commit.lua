-- How the plans of a commit are read, before anything is written; see commit.lua and commit_parts.py.
local TERMS = 8
local KINDS = {look = true, change = true, ['end'] = true}

-- What the parts of a head are and where they stand behind it: {{name, part, from, upto}, ...}; also how many arguments
-- that are with the head, or nil and what is wrong.
local function read_layout(text)
  local layout, size, known = {}, 1, {}
  for word in string.gmatch(text, '%S+') do
    local name, count = string.match(word, '^(%l+):(%d+)$')
    local part = PARTS[name]
    if not part then return {wrong = 'unknown part ' .. (name or word)} end
    count = #count <= MAX_DIGITS and tonumber(count)
    if not count or known[name] or count % part.size ~= 0 then return {wrong = name .. ' has no whole rows'} end
    known[name] = true
    layout[#layout + 1] = {name = name, part = part, from = size, upto = size + count - 1}
    size = size + count
  end
  layout.size = size
  return layout
end

-- The rows of a part at from..upto of args, of a flat one where it is; false where one of them is wrong.
local function read_rows(part, args, from, upto)
  local rows, read = {}, part.read
  if read then
    for i = from, upto, part.size do
      local row = read(args, i)
      if not row then return false end
      rows[#rows + 1] = row
    end
  end
  return part.is_flat and {from, upto} or rows
end

-- A plan of the call, whose head stands at args[at]; of one that cannot be read its id and what is `wrong`.
local function read_plan(batch, args, at, size)
  local id, version, now, kind, text = string.match(args[at], '^(plan_%x%x%-%x+) (%d+) (%d+) (%l+)(.*)$')
  local function wrong(why) return {id = string.match(args[at], '^%S*'), wrong = why} end
  if not id or #version > MAX_DIGITS or #now > MAX_DIGITS or not KINDS[kind] then return wrong('no head') end
  local layout = batch.layouts[text]
  if not layout then
    layout = read_layout(text)
    batch.layouts[text] = layout
  end
  if layout.wrong then return wrong(layout.wrong) end
  if layout.size ~= size then return wrong('its parts are ' .. layout.size .. ' arguments, and it has ' .. size) end
  local p = new_plan(batch.prefix, id, version, now, kind)
  for n = 1, #layout do
    local one = layout[n]
    local rows = read_rows(one.part, args, at + one.from, at + one.upto)
    if not rows then return wrong('a wrong ' .. one.name) end
    p[one.name] = rows
  end
  if (kind == 'end' or version == '0') and not p.tenant then return wrong('no tenant') end
  if kind ~= 'look' then batch.changes = batch.changes + 1 end
  return p
end

-- All plans of the call; nil where their sizes are not those of the arguments.
local function read_plans(batch, args)
  local plans, at = {}, TERMS + 1
  for size in string.gmatch(args[TERMS], '%d+') do
    size = tonumber(size)
    if size < 1 or at + size > #args + 1 then return nil end
    plans[#plans + 1] = read_plan(batch, args, at, size)
    at = at + size
  end
  return at == #args + 1 and plans
end
