local HOT = {'version', 'state', 'head', 'live', 'strategy_state', 'quota', 'lock'}
local QUOTA, LOCK = 6, 7 -- places in HOT
local WINDOW = 64       -- dependents a window, as tasks/plan/snapshot.py has it
local MAX_WINDOWED = 96 -- dependents read in one begin: as many as one commit may change
local TODO_PAGE = 8
local FIRST_NAME = 5     -- place in ARGV
local MAX_NAME = 200    -- bytes of a controller's name, as heartbeat.lua keeps them

-- The first dependents of a step where they stand at the beginning of its spec, as schemas/stored/step.py stores it.
local function first_window(spec)
  return spec and string.match(spec, '^%["([^"]*)')
end

-- Whether the lock "<token> <until ms>" is somebody else's and holds. One that would hold for longer than locks are
-- taken for is from before the clock was set back, and no lock any more.
local function is_locked(lock, token, now, ttl)
  if not lock or lock == '' then return false end
  local holder, untl = string.match(lock, '^(%S+) (%d+)')
  local left = tonumber(untl) - now
  return holder ~= token and left > 0 and left <= tonumber(ttl)
end

-- What the controllers wrote into the leases that KEYS name.
local function read_leases(keys)
  local leases = {}
  for i = 8, #keys do
    local lease = redis.pcall('HMGET', keys[i], 'attempt', 'claimed', 'renewed', 'controller', 'ttl')
    local controller = string.sub(lease[4] or '', 1, MAX_NAME)
    leases[#leases + 1] = {number_of(lease[1]), number_of(lease[2]), number_of(lease[3]), controller, number_of(lease[5])}
  end
  return leases
end

-- What is left of the day budgets that count for a plan.
local function read_grants(keys, quota, now)
  local grants, today = {}, math.floor(now / DAY)
  for scope in string.gmatch(quota or '', '[^\n]+') do
    local left, over = grant_of(redis.call('HGET', keys[7], scope), today)
    local n = #grants
    grants[n + 1], grants[n + 2], grants[n + 3] = scope, left, over
  end
  return grants
end

-- All of a plan, for a worker that keeps it between two decisions.
local function read_whole(keys, hot, now)
  local leases, grants = read_leases(keys), read_grants(keys, hot[QUOTA], now)
  hot[LOCK], hot[QUOTA] = nil, nil
  return {now, 'whole', hot, redis.call('HGETALL', keys[2]), redis.call('HGETALL', keys[3]),
    redis.call('HGETALL', keys[5]), redis.call('ZRANGE', keys[4], 0, -1), redis.call('LRANGE', keys[6], 0, -1),
    leases, grants}
end

-- KEYS 1 plan, 2 steps, 3 status, 4 ready, 5 active, 6 todo, 7 grants, 8.. the leases of the first steps named
-- ARGV 1 lock token, 2 lock ttl in ms, 3 ready steps to read beside one for each end told, 4 up to how many steps the plan
--      is read whole, 5.. steps named, or notes; a plan is not read whole for a note
-- Returns {now, 'ok'|'busy'|'gone', hot fields, {step, ...}, {spec, ...}, {status, ...}, {step, window, dependents,
--          more, ...}, {active step, record, ...}, {ready step, ...}, ready steps asked for, {todo item, ...},
--          todo length, {{attempt, claimed, renewed, controller, ttl}, ...}, {scope, left, exhausted, ...},
--          texts of several steps}
-- or of a plan that is read whole {now, 'whole', hot fields, {field, spec or window, ...}, {step, status, ...},
--          {active step, record, ...}, {ready step, ...}, {todo item, ...}, leases, grants as above}
local function begin(keys, args)
  local plan, steps, status, ready, active, todo = keys[1], keys[2], keys[3], keys[4], keys[5], keys[6]
  local now = now_ms()
  local hot = redis.call('HMGET', plan, unpack(HOT))
  if not hot[1] then return {now, 'gone'} end
  if is_locked(hot[LOCK], args[1], now, args[2]) then return {now, 'busy'} end
  redis.call('HSET', plan, 'lock', args[1] .. ' ' .. now + args[2])
  if args[4] ~= '0' and redis.call('HLEN', status) <= tonumber(args[4]) then return read_whole(keys, hot, now) end

  -- The steps whose ends may be told: those named, then those left over; with them the windows of their dependents.
  local items = redis.call('LRANGE', todo, 0, TODO_PAGE - 1)
  local names, place, numbers, wanted = {}, {}, {}, {}
  local function name(step)
    if not place[step] then
      names[#names + 1] = step
      place[step] = #names
    end
  end
  for i = FIRST_NAME, #args do name(args[i]) end
  for i, item in ipairs(items) do
    local step, number = string.match(item, '^(%S+) (%d+)')
    name(step)
    wanted[#wanted + 1] = {step, number}
  end
  for i = FIRST_NAME, #args do wanted[#wanted + 1] = {args[i], '0'} end
  local ends = #names

  -- The first window of a step stands at the beginning of its spec, the others have fields of their own.
  local windows, known = {}, {}
  if #wanted > 0 then
    local fields, windowed = {}, 0
    for i, w in ipairs(wanted) do fields[i] = w[2] == '0' and w[1] or '>' .. w[1] .. ':' .. w[2] end
    local found = redis.call('HMGET', steps, unpack(fields))
    for i, w in ipairs(wanted) do
      if w[2] == '0' then
        known[w[1]] = found[i]
        found[i] = first_window(found[i])
      end
    end
    for i, w in ipairs(wanted) do
      if windowed >= MAX_WINDOWED then break end
      local ids, count, more = found[i] or '', 0, 0
      for id in string.gmatch(ids, '%S+') do
        name(id)
        count = count + 1
      end
      windowed = windowed + count
      if count == WINDOW then more = redis.call('HEXISTS', steps, '>' .. w[1] .. ':' .. (w[2] + 1)) end
      local n = #windows
      windows[n + 1], windows[n + 2], windows[n + 3], windows[n + 4] = w[1], tonumber(w[2]), ids, more
    end
  end

  local flying = redis.call('HGETALL', active)
  local page = ends + args[3]
  local queue = redis.call('ZRANGE', ready, 0, page - 1)
  local must = {} -- places of steps whose spec is needed whatever their state
  for i = 1, ends do must[i] = true end
  for _, step in ipairs(queue) do
    name(step)
    must[place[step]] = true
  end

  -- A dependent's spec is needed if the ends told here can make it ready. A name that begins with = is no step but a note
  -- of the plan: it has no record, and what stands in the place of its spec is the note.
  local records, specs = {}, {}
  if #names > 0 then
    records = redis.call('HMGET', status, unpack(names))
    local need, where = {}, {}
    for i = 1, #names do
      local record = records[i]
      specs[i] = false
      local is_note = string.sub(names[i], 1, 1) == '='
      if is_note or record and (must[i] or tonumber(string.match(record, '^%[(%d+)')) <= ends) then
        specs[i] = known[names[i]]
        if specs[i] == nil then
          need[#need + 1] = names[i]
          where[#where + 1] = i
        end
      end
    end
    if #need > 0 then
      local found = redis.call('HMGET', steps, unpack(need))
      for i, spec in ipairs(found) do specs[where[i]] = spec end
    end
  end

  local leases, grants, length = read_leases(keys), read_grants(keys, hot[QUOTA], now), #items
  if length == TODO_PAGE then length = redis.call('LLEN', todo) end
  hot[LOCK], hot[QUOTA] = nil, nil
  local texts = redis.call('HGET', steps, '#texts')
  return {now, 'ok', hot, names, specs, records, windows, flying, queue, page, items, length, leases, grants, texts}
end

redis.register_function{function_name = 'planner_begin', callback = begin, flags = {'allow-oom'}}
