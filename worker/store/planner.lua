#!lua name=planner_1
-- The planner's atomic acts on a partition. Every key of a call lies in one cluster slot ({p}).
-- The number in the names is the version of the argument layout: workers of two versions can run side by side.
--
-- planner:{p}:plan:<id>          hash    state, version (the fence), lock ("<worker> <until ms>"), head, limits,
--                                        budgets, counters, times
-- planner:{p}:plan:<id>:steps    hash    <step> -> static spec; ><step>:<n> -> n-th window of its dependents, spaced
-- planner:{p}:plan:<id>:status   hash    <step> -> JSON array, unmet dependencies first
-- planner:{p}:plan:<id>:ready    zset    steps that may start, by their index
-- planner:{p}:plan:<id>:active   hash    <step> -> "<spec entry> <JSON array>": attempts in flight
-- planner:{p}:plan:<id>:todo     list    "<step> <window>": ends of steps that dependents have not heard of yet
-- planner:{p}:plan:<id>:log      list    one JSON line a commit
-- planner:{p}:timers             zset    <plan> -> when to look at it without being asked, ms
-- planner:{p}:plans              zset    <plan> -> created time in ms
-- planner:{p}:lease:<plan>:<step> hash   attempt, lease, tokens, ttl; controller, claimed, renewed

local HOT = {'version', 'state', 'head', 'live', 'lock'}
local LOCK = 5          -- place in HOT
local WINDOW = 64       -- dependents a window, as tasks/view.py has it
local MAX_WINDOWED = 96 -- dependents read in one begin: as many as one commit may change
local TODO_PAGE = 8

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Whether the lock "<token> <until ms>" is somebody else's and holds.
local function is_locked(lock, token, now)
  if not lock or lock == '' then return false end
  local holder, untl = string.match(lock, '^(%S+) (%d+)$')
  return holder ~= token and tonumber(untl) > now
end

-- KEYS 1 plan, 2 steps, 3 status, 4 ready, 5 active, 6 todo, 7.. the leases of the first steps named
-- ARGV 1 lock token, 2 lock ttl in ms, 3 ready steps to read beside one for each end told, 4.. steps named
-- Returns {now, 'ok'|'busy'|'gone', hot fields, {step, ...}, {spec, ...}, {status, ...}, {step, window, dependents,
--          more, ...}, {active step, record, ...}, {ready step, ...}, ready steps asked for, {todo item, ...},
--          todo length, {lease fields, ...}}
local function begin(keys, args)
  local plan, steps, status, ready, active, todo = keys[1], keys[2], keys[3], keys[4], keys[5], keys[6]
  local now = now_ms()
  local hot = redis.call('HMGET', plan, unpack(HOT))
  if not hot[1] then return {now, 'gone'} end
  if is_locked(hot[LOCK], args[1], now) then return {now, 'busy'} end
  redis.call('HSET', plan, 'lock', args[1] .. ' ' .. now + args[2])

  -- The steps whose ends may be told: those named, then those left over; with them the windows of their dependents.
  local items = redis.call('LRANGE', todo, 0, TODO_PAGE - 1)
  local names, place, numbers, wanted = {}, {}, {}, {}
  local function name(step)
    if not place[step] then
      names[#names + 1] = step
      place[step] = #names
    end
  end
  for i = 4, #args do name(args[i]) end
  for i, item in ipairs(items) do
    local step, number = string.match(item, '^(%S+) (%d+)$')
    name(step)
    wanted[#wanted + 1] = {step, number}
  end
  for i = 4, #args do wanted[#wanted + 1] = {args[i], '0'} end
  local ends = #names

  local windows = {}
  if #wanted > 0 then
    local fields, windowed = {}, 0
    for i, w in ipairs(wanted) do fields[i] = '>' .. w[1] .. ':' .. w[2] end
    local found = redis.call('HMGET', steps, unpack(fields))
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

  -- A dependent's spec is needed if the ends told here can make it ready.
  local records, specs = {}, {}
  if #names > 0 then
    records = redis.call('HMGET', status, unpack(names))
    local need, where = {}, {}
    for i = 1, #names do
      local record = records[i]
      specs[i] = false
      if record and (must[i] or tonumber(string.match(record, '^%[(%d+)')) <= ends) then
        need[#need + 1] = names[i]
        where[#where + 1] = i
      end
    end
    if #need > 0 then
      local found = redis.call('HMGET', steps, unpack(need))
      for i, spec in ipairs(found) do specs[where[i]] = spec end
    end
  end

  local leases, length = {}, #items
  for i = 7, #keys do leases[#leases + 1] = redis.call('HMGET', keys[i], 'attempt', 'claimed', 'renewed') end
  if length == TODO_PAGE then length = redis.call('LLEN', todo) end
  hot[LOCK] = nil
  return {now, 'ok', hot, names, specs, records, windows, flying, queue, page, items, length, leases}
end

-- KEYS 1 plan, 2 steps, 3 status, 4 ready, 5 active, 6 todo, 7 log, 8 timers, 9 events, 10 plans,
--      11.. streams and leases, which the sections name by their place in KEYS
-- ARGV 1 plan id, 2 expected version (0: the plan must not exist), 3 lock token, 4 changed (0|1), 5 now,
--      6 seconds until the keys of an ended plan go (0: not ended), 7 cap of the events, 8 log line ('' for none),
--      9 when the plan's timer runs out ('' to leave it, 0 for never),
--      10.. the number of entries of each section of SECTIONS, then the sections
-- Returns 'ok', 'stale' (another worker changed the plan first), 'gone', or an error before anything is written
local SECTIONS = {
  2, -- 1 field: name, value                                of the plan's hash
  2, -- 2 status: step, record
  2, -- 3 spec: field, value                                of the steps' hash
  2, -- 4 ready: index, step                                added
  1, -- 5 unready: step
  5, -- 6 ended: step, queue place, spec entry, lease place, cancelled (0|1)
  8, -- 7 start: step, queue place, lease place, spec, attempt, lease, tokens, record
  1, -- 8 undo: number of items taken from the head of todo
  1, -- 9 todo: item
  2, -- 10 event: type, data
  2, -- 11 ack: stream place, entry
  2, -- 12 guard: lease place, the renewal that was read    an attempt that expires must still be silent
}
local FIRST_COUNT = 10
local FIRST_ITEM = FIRST_COUNT + #SECTIONS
local SILENT = 60000       -- ms a controller may be silent after a claim; told to it by planner_heartbeat
local CANCEL_KEPT = 3600    -- s; longer than any controller waits between two heartbeats
local FORGET_AFTER = 60     -- s after the keys of an ended plan have gone
local MAX_UNPACK = 4000    -- arguments of one command, below what Lua's stack takes

-- Finds where each section starts. Checks what could fail later before the first write, since a script keeps what it
-- wrote: the number of arguments, and that every place names a key.
local function parse(keys, args)
  local at, first = FIRST_ITEM, {}
  for i, size in ipairs(SECTIONS) do
    first[i] = at
    at = at + (tonumber(args[FIRST_COUNT + i - 1]) or 0) * size
  end
  first[#SECTIONS + 1] = at
  if at ~= #args + 1 then return nil, 'the sections do not add up to the arguments' end
  for i = first[6], first[7] - 1, 5 do
    if not (keys[tonumber(args[i + 1])] and keys[tonumber(args[i + 3])]) then return nil, 'ended: no such place' end
  end
  for i = first[7], first[8] - 1, 8 do
    if not (keys[tonumber(args[i + 1])] and keys[tonumber(args[i + 2])]) then return nil, 'start: no such place' end
  end
  for i = first[11], first[12] - 1, 2 do
    if not keys[tonumber(args[i])] then return nil, 'ack: no such place' end
  end
  for i = first[12], first[13] - 1, 2 do
    if not keys[tonumber(args[i])] then return nil, 'guard: no such place' end
  end
  return first
end

-- Runs `command key` on the arguments from..to, in pieces that Lua can unpack.
local function many(command, key, args, from, to)
  for i = from, to, MAX_UNPACK do
    redis.call(command, key, unpack(args, i, math.min(i + MAX_UNPACK - 1, to)))
  end
end

-- Adds a spec to a queue; makes the queue with its group where it is missing. Returns the entry, or an error table.
local function add_spec(queue, spec)
  local entry = redis.pcall('XADD', queue, 'NOMKSTREAM', '*', 'data', spec)
  if entry then return entry end
  redis.call('XGROUP', 'CREATE', queue, 'controllers', '0', 'MKSTREAM')
  return redis.call('XADD', queue, '*', 'data', spec)
end

local function commit(keys, args)
  local plan, active = keys[1], keys[5]
  local first, bad = parse(keys, args)
  if not first then return redis.error_reply('ERR planner commit: ' .. bad) end
  local expected, changed = args[2], args[4] == '1'
  local version = redis.call('HGET', plan, 'version')
  if (version or '0') ~= expected then return version and 'stale' or 'gone' end
  for i = first[12], first[13] - 1, 2 do
    if (redis.call('HGET', keys[tonumber(args[i])], 'renewed') or '0') ~= args[i + 1] then return 'stale' end
  end

  -- The specs go first: only this can fail, where somebody has put another type in a queue's place.
  local entries = {}
  for i = first[7], first[8] - 1, 8 do
    local entry = add_spec(keys[tonumber(args[i + 1])], args[i + 3])
    if type(entry) == 'table' then
      for j, id in ipairs(entries) do redis.call('XDEL', keys[tonumber(args[first[7] + 8 * (j - 1) + 1])], id) end
      return redis.error_reply('ERR planner commit: ' .. keys[tonumber(args[i + 1])] .. ' is not a stream')
    end
    entries[#entries + 1] = entry
  end

  local fresh = changed and expected + 1 or version
  if fresh then redis.call('HSET', plan, 'version', fresh, 'lock', '', unpack(args, first[1], first[2] - 1)) end
  if expected == '0' then redis.call('ZADD', keys[10], args[5], args[1]) end
  many('HSET', keys[3], args, first[2], first[3] - 1)
  many('HSET', keys[2], args, first[3], first[4] - 1)
  many('ZREM', keys[4], args, first[5], first[6] - 1)
  many('ZADD', keys[4], args, first[4], first[5] - 1)
  for i = first[6], first[7] - 1, 5 do
    local queue, entry, lease = keys[tonumber(args[i + 1])], args[i + 2], keys[tonumber(args[i + 3])]
    redis.call('HDEL', active, args[i])
    redis.pcall('XACK', queue, 'controllers', entry) -- a queue that somebody replaced holds the spec no more
    redis.pcall('XDEL', queue, entry)
    if args[i + 4] == '1' then -- its controller hears `cancel` from planner_heartbeat, once it asks
      redis.call('HSET', lease, 'action', 'cancel')
      redis.call('EXPIRE', lease, CANCEL_KEPT)
    else
      redis.call('DEL', lease)
    end
  end
  for n, entry in ipairs(entries) do
    local i = first[7] + 8 * (n - 1)
    redis.call('HSET', active, args[i], entry .. ' ' .. args[i + 7])
    redis.call('HSET', keys[tonumber(args[i + 2])],
      'attempt', args[i + 4], 'lease', args[i + 5], 'tokens', args[i + 6], 'ttl', SILENT)
  end
  if args[9] == '0' then
    redis.call('ZREM', keys[8], args[1])
  elseif args[9] ~= '' then
    redis.call('ZADD', keys[8], args[9], args[1])
  end
  for i = first[8], first[9] - 1 do redis.call('LTRIM', keys[6], args[i], -1) end
  many('RPUSH', keys[6], args, first[9], first[10] - 1)
  if args[8] ~= '' then redis.call('RPUSH', keys[7], args[8]) end
  for i = first[10], first[11] - 1, 2 do
    redis.call('XADD', keys[9], 'MAXLEN', '~', args[7], '*', 'type', args[i], 'data', args[i + 1])
  end
  for i = first[11], first[12] - 1, 2 do
    local stream = keys[tonumber(args[i])]
    redis.call('XACK', stream, 'planner', args[i + 1])
    redis.call('XDEL', stream, args[i + 1])
  end
  if args[6] ~= '0' then
    for i = 1, 7 do redis.call('EXPIRE', keys[i], args[6]) end
    redis.call('ZADD', keys[8], args[5] + (args[6] + FORGET_AFTER) * 1000, args[1]) -- then its place in plans goes too
  end
  return 'ok'
end

-- KEYS 1 timers, 2 sweep lock | ARGV 1 token, 2 lock ttl in ms, 3 limit
-- Returns {now, {member due, ...}}, or {now} while another worker sweeps
local function upkeep(keys, args)
  local now = now_ms()
  local holder = redis.call('GET', keys[2])
  if holder and holder ~= args[1] then return {now} end
  redis.call('SET', keys[2], args[1], 'PX', args[2])
  return {now, redis.call('ZRANGE', keys[1], '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, args[3])}
end

redis.register_function{function_name = 'planner_begin_1', callback = begin, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_commit_1', callback = commit, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_upkeep_1', callback = upkeep, flags = {'allow-oom'}}
