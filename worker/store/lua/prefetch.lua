-- What the next outcomes of a large plan can touch, for a worker that has decided about the plan and keeps that.
local READY_PAGE = 4          -- ready steps that a decision looks at beside one for each end, as tasks/plan/snapshot.py has it
local MOST_TOUCHED, TOUCHED_EACH = 64, 8 -- dependents of what is in flight; a plan with more is read with each outcome
local PREFETCH_TODO = 6       -- place in KEYS

-- Names steps, each once.
local function new_names()
  local names, known = {}, {}
  local function name(step)
    if not known[step] then
      known[step] = true
      names[#names + 1] = step
    end
  end
  return names, name, known
end

-- The dependents of a step, and how many of them are not `known`; none where there are so many that there may be another
-- window.
local function dependents_of(window, known)
  local ids, new = {}, 0
  for id in string.gmatch(window, '%S+') do
    ids[#ids + 1] = id
    if not known[id] then new = new + 1 end
  end
  if #ids >= WINDOW then return {}, 0 end
  return ids, new
end

-- KEYS 1 plan, 2 steps, 3 status, 4 ready, 5 active, 6 todo
-- ARGV 1 how many steps to read ahead
-- Returns {hot fields, {step, spec, ...} with the texts, {step, status, ...}, {active step, record, ...}, {ready step, ...},
--          whether there may be more ready steps}: of all steps in flight and the next ready ones, those that they lead to,
--          as deep as that many go. False of a plan that has gone, that has
--          left-over work, nothing in flight or a day budget, or that fans out too widely
local function prefetch(keys, args)
  local plan, steps, status, ready, active = keys[1], keys[2], keys[3], keys[4], keys[5]
  local hot = redis.call('HMGET', plan, unpack(HOT))
  if not hot[1] or (hot[QUOTA] and hot[QUOTA] ~= '') or redis.call('EXISTS', keys[PREFETCH_TODO]) == 1 then return false end
  local flying, ahead = redis.call('HGETALL', active), tonumber(args[1])
  local names, name, known = new_names()
  for i = 1, #flying, 2 do name(flying[i]) end
  local ends = #names
  if ends == 0 then return false end
  local page = ends + READY_PAGE + ahead
  local queue = redis.call('ZRANGE', ready, 0, page - 1)
  for _, step in ipairs(queue) do name(step) end

  local texts = redis.call('HGET', steps, '#texts')
  local fields, statuses = texts and {'#texts', texts} or {}, {}
  local function add(step, spec, record)
    local n, m = #fields, #statuses
    fields[n + 1], fields[n + 2] = step, spec
    statuses[m + 1], statuses[m + 2] = step, record
  end
  local from, most = 1, #names + MOST_TOUCHED + TOUCHED_EACH * ends
  while from <= #names do
    local upto = #names
    local found = redis.call('HMGET', steps, unpack(names, from, upto))
    local records = redis.call('HMGET', status, unpack(names, from, upto))
    for i = from, upto do
      local at = i - from + 1
      local spec, record = found[at], records[at]
      if spec and record then add(names[i], spec, record) end
      local ids, new = dependents_of(first_window(spec) or '', known)
      if i <= ends and #names + new > most then return false end
      if #names + new <= most then
        for _, id in ipairs(ids) do name(id) end
      end
      if i == ends then most = #names + ahead end
    end
    from = upto + 1
  end
  hot[LOCK], hot[QUOTA] = nil, nil
  return {hot, fields, statuses, flying, queue, #queue == page}
end

redis.register_function{function_name = 'planner_prefetch', callback = prefetch, flags = {'no-writes', 'allow-oom'}}
