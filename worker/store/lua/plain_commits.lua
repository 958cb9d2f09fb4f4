-- Commits of plain successes of several plans in one call, each fenced by its plan's version and isolated from the others.
-- Several of one plan rest each on the one before: where one is refused, so are those after it. They have to be in one call.
-- The keys of a plan are no arguments: each is made of what those that are given begin with.
-- KEYS 1 commits, 2 outcomes, 3 events, 4 timers, 5 scopes, 6 plans, 7 tenants
-- ARGV 1 the field that counts the commits, 2 the highest number that this worker knows of, 3 how many commands this
--      partition had heard of, 4 cap of the events, 5 how many specs a queue takes, 6 seconds until the keys of
--      an ended plan go, then for each plan:
--      '<plan id> <expected version> <now> <outcome entry> <done step> <its queue> <its spec entry> <starts> <statuses>
--      <added> <removed> <wake: - to leave it, 0 for a plan that is completed>', live, log line, the done step's
--      status, its event, for each start: '<step> <queue> <attempt> <lease> <tokens>', status, spec, record,
--      event, for each dependent that goes on waiting: step, status; for each step that is ready: index, step; for each
--      that is no longer: step; of a plan that is completed: tenant, event, its lists, spaced, its series and its figures
--      (see sums.lua)
-- Returns {now, {result, ...}}: of each plan its number with the entries of its specs, spaced; else a word as
--      planner_commit has it, or 'error <text>'. Of a plan with such a word nothing was written
local PLAIN_ITEM = 7 -- place of the first plan in ARGV
local OF_PLAN, OF_START, OF_END = 5, 5, 5
local PLAN = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%S+)$'
local START = '^(%S+) (%S+) (%S+) (%S+) (%S+)$'
local STARTED, ENDED = 'dev.planner.step.started.v1', 'dev.planner.step.done.v1'
local COMPLETED = 'dev.planner.plan.completed.v1'

local function put_entry(entries, stream, id)
  local ids = entries[stream]
  if ids then ids[#ids + 1] = id else entries[stream] = {id} end
end

local function remove_entries(group, streams)
  for stream, ids in pairs(streams) do
    redis.pcall('XACK', stream, group, unpack(ids))
    redis.pcall('XDEL', stream, unpack(ids))
  end
end

local function read_plan(args, at)
  local p, starts, statuses, added, removed = {first = at + OF_PLAN}
  p.id, p.version, p.now, p.told, p.step, p.queue, p.entry, starts, statuses, added, removed, p.wake =
    string.match(args[at], PLAN)
  p.starts, p.statuses, p.added, p.removed = tonumber(starts), tonumber(statuses), tonumber(added), tonumber(removed)
  p.live, p.log, p.status, p.event = args[at + 1], args[at + 2], args[at + 3], args[at + 4]
  p.last = p.first + OF_START * p.starts + 2 * p.statuses + 2 * p.added + p.removed
  p.ends = p.wake == '0'
  p.after = p.last + (p.ends and OF_END or 0)
  return p
end

local function read_starts(batch, args, p)
  local starts = {}
  for n = 1, p.starts do
    local at, start = p.first + OF_START * (n - 1), {}
    start.step, start.queue, start.attempt, start.lease, start.tokens = string.match(args[at], START)
    start.queue = batch.prefix .. 'steps:' .. start.queue
    start.status, start.spec, start.record, start.event = args[at + 1], args[at + 2], args[at + 3], args[at + 4]
    starts[n] = start
  end
  return starts
end

-- The first queue that has no room for what starts; its room is looked up once a call.
local function queue_without_room(batch, starts, most)
  local left = {}
  for _, start in ipairs(starts) do
    local room = left[start.queue] or batch.rooms[start.queue]
    if not room then
      local length = redis.pcall('XLEN', start.queue)
      room = type(length) == 'number' and tonumber(most) - length or 1
    end
    if room < 1 then return start.queue end
    left[start.queue] = room - 1
  end
  for queue, room in pairs(left) do batch.rooms[queue] = room end
end

-- Adds the specs. Returns the queue that takes none, since somebody has put another type in its place.
local function add_plain_specs(starts)
  for n, start in ipairs(starts) do
    local entry = add_spec(start.queue, start.spec)
    if type(entry) == 'table' then
      for j = 1, n - 1 do redis.call('XDEL', starts[j].queue, starts[j].entry) end
      return start.queue
    end
    start.entry = entry
  end
end

-- Ends a plan of which every step is done, as commit.lua does.
local function complete(batch, args, plan, p)
  local tenant, event, spaced = args[p.last], args[p.last + 1], args[p.last + 2]
  local lists = {}
  for name in string.gmatch(spaced, '%S+') do lists[#lists + 1] = name end
  redis.call('HSET', plan, 'state', 'COMPLETED')
  put_into_lists(batch.plans, p.id, lists)
  redis.call('XADD', batch.events, '*', 'type', COMPLETED, 'data', event)
  put_into_outbox(batch.events, plan, p.id, p.now, TOLD_OUTSIDE[COMPLETED])
  end_plan(plan, batch.timers, batch.tenants, p.id, tenant, p.now, batch.retention)
  add_to_sums(batch.events, p.now, args[p.last + 3], args[p.last + 4])
end

-- Writes what follows the specs. Nothing of this can be refused, but by a key of ours in whose place somebody has put
-- another type.
local function write_plain(batch, args, plan, p, starts)
  redis.call('HSET', plan, 'version', p.version + 1, 'lock', '', 'live', p.live)
  local active, lease, statuses = plan .. ':active', batch.prefix .. 'lease:' .. p.id .. ':', {p.step, p.status}
  for _, start in ipairs(starts) do
    statuses[#statuses + 1], statuses[#statuses + 2] = start.step, start.status
    redis.call('HSET', active, start.step, start.entry .. ' ' .. start.record)
    local key = lease .. start.step
    if start.attempt ~= '1' then redis.call('DEL', key) end -- that of a cancelled attempt is still there
    redis.pcall('HSET', key, 'attempt', start.attempt, 'lease', start.lease, 'tokens', start.tokens)
  end
  local i = p.first + OF_START * p.starts
  for n = i, i + 2 * p.statuses - 1 do statuses[#statuses + 1] = args[n] end
  redis.call('HSET', plan .. ':status', unpack(statuses))
  redis.call('HDEL', active, p.step)
  batch.leases[#batch.leases + 1] = lease .. p.step
  i = i + 2 * p.statuses
  local ready = i + 2 * p.added
  if p.removed > 0 then redis.call('ZREM', plan .. ':ready', unpack(args, ready, ready + p.removed - 1)) end
  if p.added > 0 then redis.call('ZADD', plan .. ':ready', unpack(args, i, ready - 1)) end
  if not p.ends and p.wake ~= '-' then redis.call('ZADD', batch.timers, p.wake, p.id) end
  redis.call('RPUSH', plan .. ':log', p.log)
  redis.call('XADD', batch.events, '*', 'type', ENDED, 'data', p.event)
  for _, start in ipairs(starts) do redis.call('XADD', batch.events, '*', 'type', STARTED, 'data', start.event) end
  if p.ends then complete(batch, args, plan, p) end
end

local function commit_plain(batch, args, p)
  local plan = batch.prefix .. 'plan:' .. p.id
  local version = redis.call('HGET', plan, 'version')
  if version ~= p.version then return version and 'stale' or 'gone' end
  if batch.rolled_back then return 'rolled back' end
  if batch.commanded then return 'stale' end
  local starts = read_starts(batch, args, p)
  local full = queue_without_room(batch, starts, args[5])
  if full then return 'full ' .. full end
  local odd = add_plain_specs(starts)
  if odd then return 'error ERR planner commit: ' .. odd .. ' is not a stream' end
  write_plain(batch, args, plan, p, starts)
  put_entry(batch.specs, batch.prefix .. 'steps:' .. p.queue, p.entry)
  put_entry(batch.told, batch.outcomes, p.told)
  batch.count = batch.count + 1
  local result = string.format('%d', batch.base + batch.count)
  for _, start in ipairs(starts) do result = result .. ' ' .. start.entry end
  return result
end

local function commit_all_plain(keys, args)
  local base = tonumber(redis.call('HGET', keys[1], args[1]) or '0')
  local batch = {
    prefix = string.sub(keys[1], 1, -8), -- without 'commits'
    outcomes = keys[2], events = keys[3], timers = keys[4], plans = keys[6], tenants = keys[7],
    retention = args[6], base = base, count = 0, rooms = {}, refused = {}, specs = {}, told = {}, leases = {},
    rolled_back = base + 1 <= tonumber(args[2]),
    commanded = (redis.call('HGET', keys[5], 'commands') or '0') ~= args[3],
  }
  local results, at = {}, PLAIN_ITEM
  while at <= #args do
    local p = read_plan(args, at)
    local done, result = true, 'stale' -- what rests on a change that was not made is not, whoever made the version right
    if not batch.refused[p.id] then done, result = pcall(commit_plain, batch, args, p) end
    if not done then
      if type(result) == 'table' then result = result.err end
      result = 'error ' .. tostring(result)
    end
    if not string.find(result, '^%d') then batch.refused[p.id] = true end
    results[#results + 1] = result
    at = p.after
  end
  if batch.count > 0 then
    redis.call('HINCRBY', keys[1], args[1], batch.count)
    redis.call('XTRIM', keys[3], 'MAXLEN', '~', args[4])
    redis.call('DEL', unpack(batch.leases)) -- of steps that are done, which no change of this call starts again
    remove_entries('controllers', batch.specs)
    remove_entries('planner', batch.told)
  end
  return {now_ms(), results}
end

redis.register_function{function_name = 'planner_commits', callback = commit_all_plain, flags = {'allow-oom'}}
