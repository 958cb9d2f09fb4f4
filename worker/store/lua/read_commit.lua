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

-- The rows of a part of the plan whose head stands at args[at], of a flat one where they are behind it; false where one of
-- them is wrong.
local function read_rows(one, args, at)
  local part = one.part
  local rows, read = not part.is_flat and {}, part.read
  if read then
    for i = at + one.from, at + one.upto, part.size do
      local row = read(args, i)
      if not row then return false end
      if rows then rows[#rows + 1] = row end
    end
  end
  return rows or one
end

-- A plan of the call, whose head stands at args[at]; else nil and what is wrong.
local function read_plan(batch, args, at, size)
  local id, version, now, kind, text = string.match(args[at], '^(plan_%x%x%-%x+) (%d+) (%d+) (%l+)(.*)$')
  if not id or #version > MAX_DIGITS or #now > MAX_DIGITS or not KINDS[kind] then return nil, 'no head' end
  local layout = batch.layouts[text]
  if not layout then
    layout = read_layout(text)
    batch.layouts[text] = layout
  end
  if layout.wrong then return nil, layout.wrong end
  if layout.size ~= size then return nil, 'its parts are ' .. layout.size .. ' arguments, and it has ' .. size end
  local p = { -- with room for the parts that a plain success has
    id = id, version = version, now = now, kind = kind, at = at, key = batch.prefix .. 'plan:' .. id,
    lease = batch.prefix .. 'lease:' .. id .. ':', start = false, ended = false, ack = false, status = false,
    event = false, log = false, field = false,
  }
  for n = 1, #layout do
    local one = layout[n]
    local rows = read_rows(one, args, at)
    if not rows then return nil, 'a wrong ' .. one.name end
    p[one.name] = rows
  end
  if (kind == 'end' or version == '0') and not p.tenant then return nil, 'no tenant' end
  if kind ~= 'look' then batch.changes = batch.changes + 1 end
  return p
end

-- All plans of the call, of one that cannot be read its id and what is `wrong`; nil where their sizes are not those of the
-- arguments.
local function read_plans(batch, args)
  local plans, at = {}, TERMS + 1
  for size in string.gmatch(args[TERMS], '%d+') do
    size = tonumber(size)
    if size < 1 or at + size > #args + 1 then return nil end
    local p, wrong = read_plan(batch, args, at, size)
    plans[#plans + 1] = p or {id = string.match(args[at], '^%S*'), wrong = wrong}
    at = at + size
  end
  return at == #args + 1 and plans
end
