-- Commits of several plans in one call, each fenced by its plan's version and isolated from the others. Several of one
-- plan rest each on the one before: where one is refused, so are those after it. They have to be in one call.
-- A script keeps what it wrote: so the parts of all plans are read and checked before the first write, and what is left
-- to refuse a plan comes before its own. Keys of plans, queues and leases are made of what the first key begins with.
-- KEYS 1 commits, 2 events, 3 timers, 4 scopes, 5 plans, 6 tenants, 7 grants
-- ARGV 1 the field that counts the commits, 2 the highest number that this worker knows of, 3 how many commands this
--      partition had heard of when it was decided ('' if that does not matter), 4 cap of the events, 5 how many specs a
--      queue takes, 6 seconds until the keys of an ended plan go, 7 1 if the server's time is wanted, else 0,
--      8 how many arguments each plan has, spaced; then for each plan its head and its parts (commit_parts.py):
--      '<plan id> <expected version: 0 for a plan that must not exist> <now> <kind> <part>:<arguments> ...'
--      Its kind is `look` where only entries are acknowledged, `change`, or `end`
-- Returns {now or 0, {result, ...}}: of each plan its number with the entries of its specs, spaced; 'ok' after a look;
--      else why nothing of it was written: 'stale' (another worker changed first what this rests on), 'claimed' (the
--      same of claims on files), 'gone', 'rolled back' (the data are older than this worker knows them),
--      'full <queue>' or 'error <text>'
local ENDINGS = {'', ':steps', ':status', ':ready', ':active', ':todo', ':log'} -- of the keys of a plan
local NOTHING = {}           -- the rows of a part that a plan does not have
local CANCEL_KEPT = 3600    -- s; longer than any controller waits between two heartbeats
local FORGET_AFTER = 60     -- s after the keys of an ended plan have gone: then its place in plans goes too
local CONFIRM_AFTER = 5000  -- ms after the end of a plan: by then its goal's record has been told, or is told again
local MAX_UNPACK = 4000     -- arguments of one command, below what Lua's stack takes
local RECALLED = 1000       -- fields of what plans of one kind and repository leave to the next
local RECALL_KEPT = 180 * 86400 -- s without such a plan
local USED_ATTEMPTS = 50    -- the last ones of a mode on a queue, which estimates are learned from
local CANCELLED, DONE, FAILED = '1', '2', '3' -- results of attempts that have ended (commit_parts.py)
local MOST_WORKED = 10000    -- counts of a day: two for each controller
local MOST_INFO = 512 -- bytes that a controller may say of itself; heartbeat.lua has the same
local MOST_NAME = 200       -- bytes of a controller's name that is counted, as heartbeat.lua keeps them
local WORKED_KEPT = 2 * 86400 -- s; today's and yesterday's are shown
local USED_KEPT = 90 * 86400 -- s without such an attempt
local RECORDS = 2000        -- attempts of a fingerprint, each of 256 bytes at most (tasks/memory/outcomes.py)
local RECORDS_LEFT = 1900   -- of more: that costs every outcome less
local RECORD_DAYS = 90      -- that a record lasts
local RECORDS_KEPT = 120 * 86400 -- s without a plan that begins to use them
local FINGERPRINTS = 100    -- of a tenant; of more the one goes that was used least lately
local MOST_PRUNED = 64      -- records that one plan's beginning drops

-- Runs `command key` on the arguments of a flat part, in pieces that Lua can unpack.
local function many(command, key, args, p, part)
  local upto = p.at + part.upto
  for i = p.at + part.from, upto, MAX_UNPACK do
    redis.call(command, key, unpack(args, i, math.min(i + MAX_UNPACK - 1, upto)))
  end
end

local function put_entry(entries, stream, id)
  local ids = entries[stream]
  if ids then ids[#ids + 1] = id else entries[stream] = {id} end
end

-- Queues are others' too: what somebody put in their place holds nothing.
local function remove_entries(group, streams)
  for stream, ids in pairs(streams) do
    redis.pcall('XACK', stream, group, unpack(ids))
    redis.pcall('XDEL', stream, unpack(ids))
  end
end

-- Whether a grant has less than a decision rested on, and too little for it.
local function is_short(grants, taken, today)
  for _, one in ipairs(taken) do
    if one.left ~= NONE then
      local left = grant_of(redis.call('HGET', grants, one.scope), today)
      if left ~= tonumber(one.left) and left < tonumber(one.tokens) then return true end
    end
  end
  return false
end

-- Whether a lease was renewed since a decision rested on that it was not.
local function is_renewed(p)
  for _, one in ipairs(p.guard) do
    if number_of(redis.pcall('HGET', p.lease .. one.step, 'renewed')) ~= tonumber(one.renewed) then return true end
  end
  return false
end

-- Whether another plan changed a counter since that a decision rests on.
local function is_recounted(prefix, recall)
  for _, one in ipairs(recall) do
    local key = prefix .. 'recall:' .. one.name
    if one.seen ~= NONE and (redis.call('HGET', key, one.field) or '0') ~= one.seen then return true end
  end
  return false
end

-- The first queue that has no room for what starts; its room is looked up once a call.
local function queue_without_room(batch, starts)
  local left = {}
  for n = 1, #starts do
    local queue = starts[n].queue
    local room = left[queue] or batch.rooms[queue]
    if not room then
      local length = redis.pcall('XLEN', batch.steps .. queue)
      room = type(length) == 'number' and batch.max_queue - length or math.huge
    end
    if room < 1 then return batch.steps .. queue end
    left[queue] = room - 1
  end
  for queue, room in pairs(left) do batch.rooms[queue] = room end
end

-- Why nothing may be written: another worker was faster with what this decision rests on, or there is no room.
local function refusal(batch, p)
  local version = redis.call('HGET', p.key, 'version')
  if (version or '0') ~= p.version then return version and 'stale' or 'gone' end
  if p.guard and is_renewed(p) then return 'stale' end
  if p.kind == 'look' then return nil end
  if batch.heard ~= '' then
    batch.commanded = (redis.call('HGET', batch.scopes, 'commands') or '0') ~= batch.heard
    batch.heard = ''
  end
  if batch.commanded then return 'stale' end
  if p.taken and is_short(batch.grants, p.taken, math.floor(p.now / DAY)) then return 'stale' end
  if p.recall and is_recounted(batch.prefix, p.recall) then return 'stale' end
  if p.claim and is_claimed(batch.claims, p.id, p.claim) then return 'claimed' end
  local full = p.start and queue_without_room(batch, p.start)
  return full and 'full ' .. full
end

-- Numbers all changes of the call at once; those that are not made are given back.
local function count_changes(batch)
  batch.base = redis.call('HINCRBY', batch.commits, batch.field, batch.changes) - batch.changes
  batch.rolled_back = batch.base + 1 <= batch.known
end

-- Adds a spec to a queue; makes the queue with its group where it is missing. Returns the entry, or an error table.
local function add_spec(queue, spec)
  local entry = redis.pcall('XADD', queue, 'NOMKSTREAM', '*', 'data', spec)
  if entry then return entry end
  redis.call('XGROUP', 'CREATE', queue, 'controllers', '0', 'MKSTREAM')
  return redis.call('XADD', queue, '*', 'data', spec)
end

-- Adds the specs of the attempts that start. Returns their entries; else nil and the queue that takes none, since
-- somebody has put another type in its place.
local function add_specs(steps, starts)
  local entries = {}
  for n = 1, #starts do
    local queue = steps .. starts[n].queue
    local entry = add_spec(queue, starts[n].spec)
    if type(entry) == 'table' then
      for j, id in ipairs(entries) do redis.call('XDEL', steps .. starts[j].queue, id) end
      return nil, queue
    end
    entries[n] = entry
  end
  return entries
end

local function write_plan(batch, args, p, changed)
  local version, first, last = changed and p.version + 1 or p.version, 1, 0
  if p.field then first, last = p.at + p.field.from, p.at + p.field.upto end
  redis.call('HSET', p.key, 'version', version, 'lock', '', unpack(args, first, last))
  if p.version == '0' then
    redis.call('ZADD', batch.plans, p.now, p.id)
    redis.call('HINCRBY', batch.tenants, p.tenant[1].name, 1)
  end
  if p.list then put_into_lists(batch.plans, p.id, {unpack(args, p.at + p.list.from, p.at + p.list.upto)}) end
  if p.status then many('HSET', p.key .. ':status', args, p, p.status) end
  if p.spec then many('HSET', p.key .. ':steps', args, p, p.spec) end
  if p.unready then many('ZREM', p.key .. ':ready', args, p, p.unready) end
  if p.ready then many('ZADD', p.key .. ':ready', args, p, p.ready) end
  if p.undone then redis.call('LTRIM', p.key .. ':todo', p.undone[1].items, -1) end
  if p.todo then many('RPUSH', p.key .. ':todo', args, p, p.todo) end
end

-- Counts an attempt for the controller that has claimed it, by the day. All of a call are written together.
local function count_work(batch, now, lease, result)
  local h = redis.pcall('HMGET', lease, 'controller', 'info')
  local name = h[1]
  if type(name) ~= 'string' or #name > MOST_NAME then return end
  local key = string.format('%sworked:%.0f', batch.prefix, math.floor(now / DAY))
  local field = result .. ' ' .. name
  local counts = batch.worked[key] or {}
  batch.worked[key] = counts
  counts[field] = {count = (counts[field] and counts[field].count or 0) + 1, name = name, info = h[2]}
end

-- The info of a controller is kept with its first count of a day, and with each tenth, so that an idle one has it too.
local function keep_work(worked)
  for key, counts in pairs(worked) do
    for field, one in pairs(counts) do
      local sum = redis.pcall('HINCRBY', key, field, one.count) -- the plans are written: no error may say otherwise
      if sum == one.count then
        if redis.call('HLEN', key) > MOST_WORKED then redis.call('HDEL', key, field) end
        redis.call('EXPIRE', key, WORKED_KEPT)
      end
      if one.info and #one.info <= MOST_INFO and type(sum) == 'number' and (sum == one.count or sum % 10 < one.count)
          and redis.call('HLEN', key) < MOST_WORKED then
        redis.call('HSET', key, 'info ' .. one.name, one.info)
      end
    end
  end
end

-- Takes attempts out of flight. Leases are others' too: what somebody put in their place holds nothing. What is left of
-- the attempts goes once for all plans of the call.
local function end_attempts(batch, p)
  for n = 1, #p.ended do
    local one = p.ended[n]
    local lease = p.lease .. one.step
    redis.call('HDEL', p.key .. ':active', one.step)
    put_entry(batch.specs, batch.steps .. one.queue, one.entry)
    if one.result == DONE or one.result == FAILED then count_work(batch, p.now, lease, one.result) end
    if one.result == CANCELLED then -- its controller hears `cancel` from planner_heartbeat, once it asks
      redis.pcall('HSET', lease, 'action', 'cancel')
      redis.call('EXPIRE', lease, CANCEL_KEPT)
    else
      batch.leases[lease] = true
    end
  end
end

local function start_attempts(batch, p, entries)
  for n = 1, #p.start do
    local one = p.start[n]
    local lease = p.lease .. one.step
    redis.call('HSET', p.key .. ':active', one.step, entries[n] .. ' ' .. one.record)
    if one.attempt ~= '1' then redis.call('DEL', lease) end -- that of a cancelled attempt is still there
    batch.leases[lease] = nil
    redis.pcall('HSET', lease, 'attempt', one.attempt, 'lease', one.lease, 'tokens', one.tokens)
  end
end

local function set_timer(timers, p)
  local due = p.wake[1].due
  if due ~= '0' then return redis.call('ZADD', timers, due, p.id) end
  local left = redis.call('PTTL', p.key) -- the timer of an ended plan is that of being forgotten
  if left > 0 then
    redis.call('ZADD', timers, p.now + left + FORGET_AFTER * 1000, p.id)
  else
    redis.call('ZREM', timers, p.id)
  end
end

-- Tells what happened. The first event of a call keeps the stream of them below its cap.
local function tell_events(batch, args, p)
  local told
  for i = p.at + p.event.from, p.at + p.event.upto, 2 do
    local kind, data = args[i], args[i + 1]
    if batch.is_trimmed then
      redis.call('XADD', batch.events, '*', 'type', kind, 'data', data)
    else
      redis.call('XADD', batch.events, 'MAXLEN', '~', batch.cap, '*', 'type', kind, 'data', data)
      batch.is_trimmed = true
    end
    local what = TOLD_OUTSIDE[kind]
    if what and what ~= told then
      told = what
      put_into_outbox(batch.events, p.key, p.id, p.now, what)
    end
  end
end

-- Has the keys of a plan that ended go in time, and takes it off the plans of its tenant.
local function end_plan(batch, p)
  for _, ending in ipairs(ENDINGS) do redis.call('EXPIRE', p.key .. ending, batch.retention) end
  if p.keep then keep_files(batch.timers, p.id, p.now, p.keep) else release_files(batch.timers, p.id, p.now) end
  local tenant = p.tenant[1].name
  if redis.call('HINCRBY', batch.tenants, tenant, -1) <= 0 then redis.call('HDEL', batch.tenants, tenant) end
  redis.call('ZADD', batch.timers, p.now + CONFIRM_AFTER, p.id) -- its goal's record lies in another slot: goal_record
end

local function take_grants(grants, p)
  local today = math.floor(p.now / DAY)
  for _, one in ipairs(p.taken) do
    local value = redis.call('HGET', grants, one.scope)
    if tonumber(string.match(value or '', '^%d+') or 0) <= today then -- else midnight came before this commit
      local left, over = grant_of(value, today)
      redis.call('HSET', grants, one.scope, string.format('%d %d %s', today, left - one.tokens, over))
    end
  end
end

-- Notes in a sorted set that something is kept for so many seconds more, and drops from it what is kept no more.
local function note_kept(names, now, name, seconds)
  redis.pcall('ZADD', names, now, name) -- the plans are written: no error may say otherwise
  redis.pcall('ZREMRANGEBYSCORE', names, '-inf', now - 1000 * seconds)
end

local function remember(prefix, recall, now)
  for _, one in ipairs(recall) do
    local key = prefix .. 'recall:' .. one.name
    if one.change == NONE then
      redis.call('HDEL', key, one.field)
    elseif redis.call('HEXISTS', key, one.field) == 1 or redis.call('HLEN', key) < RECALLED then
      redis.call('HINCRBY', key, one.field, one.change)
      redis.call('EXPIRE', key, RECALL_KEPT)
      note_kept(prefix .. 'recalled', now, one.name, RECALL_KEPT)
    end
  end
end

-- Gathers what attempts used: all plans of a call are kept by one command.
local function gather_used(gathered, used)
  for n = 1, #used do
    local name = used[n].name
    local found = gathered[name] or {}
    gathered[name] = found
    found[#found + 1] = used[n].tokens
  end
end

-- Keeps what attempts used. The list is cut now and then: that costs every outcome less.
local function keep_used(prefix, gathered)
  for name, tokens in pairs(gathered) do
    local key = prefix .. 'used:' .. name
    local length = redis.pcall('LPUSH', key, unpack(tokens)) -- the plans are written: no error may say otherwise
    if type(length) == 'number' then
      redis.call('EXPIRE', key, USED_KEPT)
      if length >= 2 * USED_ATTEMPTS then redis.call('LTRIM', key, 0, USED_ATTEMPTS - 1) end
    end
  end
end

-- Has the records of a fingerprint last, without the oldest, and drops those of another one where there are too many.
local function touch_memory(prefix, now, name)
  local key = prefix .. 'memory:' .. name
  for _ = 1, MOST_PRUNED do
    local last = redis.pcall('LINDEX', key, -1)
    local day = type(last) == 'string' and tonumber(string.match(last, '^%[(%d+),'))
    if not day or day >= math.floor(now / DAY) - RECORD_DAYS then break end
    redis.call('RPOP', key)
  end
  local tenant = string.match(name, '^[^:]*')
  local names = prefix .. 'memories:' .. tenant
  if redis.call('EXPIRE', key, RECORDS_KEPT) == 0 then return redis.pcall('ZREM', names, name) end
  if type(redis.pcall('ZADD', names, now, name)) ~= 'number' then return end -- somebody has put another type in its place
  redis.call('EXPIRE', names, RECORDS_KEPT)
  note_kept(prefix .. 'memories', now, tenant, RECORDS_KEPT)
  if redis.call('ZCARD', names) > FINGERPRINTS then
    redis.call('DEL', prefix .. 'memory:' .. redis.call('ZPOPMIN', names)[1])
  end
end

local function gather_records(gathered, records)
  for n = 1, #records do
    local name, record = records[n].name, records[n].record
    local found = gathered[name] or {}
    gathered[name] = found
    if record ~= '' then found[#found + 1] = record else found.begins = true end
  end
end

-- Keeps what attempts came to, as keep_used does. A new list is touched, and one that a beginning plan uses.
local function keep_records(prefix, now, gathered)
  for name, records in pairs(gathered) do
    local key, count = prefix .. 'memory:' .. name, #records
    local length = count > 0 and redis.pcall('LPUSH', key, unpack(records)) or 0
    if type(length) == 'number' then
      if length == count or records.begins then touch_memory(prefix, now, name) end
      if length > RECORDS then redis.call('LTRIM', key, 0, RECORDS_LEFT - 1) end
    end
  end
end

-- Whether a value is what another plan has put there than the one that is named, if one is.
local function is_anothers(value, plan)
  if plan == NONE then return false end
  local read, found = pcall(cjson.decode, value)
  return read and type(found) == 'table' and found.plan_id and found.plan_id ~= plan
end

-- Keeps what plans of a repository remember for each other: the field that was first put goes first where there are too
-- many. The list of the fields in their order lies beside the hash.
local function keep_entries(prefix, kept)
  for _, one in ipairs(kept) do
    local key = prefix .. 'kept:' .. one.name
    local order = key .. ':order'
    if one.value == '' then
      local value = redis.call('HGET', key, one.field)
      if value and not is_anothers(value, one.plan) then
        redis.call('HDEL', key, one.field)
        redis.call('LREM', order, 1, one.field)
      end
    else
      if redis.call('HSET', key, one.field, one.value) == 1 then redis.call('RPUSH', order, one.field) end
      for _ = one.most + 1, redis.call('LLEN', order) do redis.call('HDEL', key, redis.call('LPOP', order)) end
      redis.call('EXPIRE', key, one.kept_s)
      redis.call('EXPIRE', order, one.kept_s)
    end
  end
end

-- Writes what few commits have.
local function write_beside(batch, p)
  for _, one in ipairs(p.action or NOTHING) do redis.pcall('HSET', p.lease .. one.step, 'action', one.action) end
  for _, one in ipairs(p.calls or NOTHING) do redis.pcall('HSET', p.lease .. one.step, 'calls', one.calls) end
  if p.claim then claim_files(batch.timers, batch.claims, p.id, p.now, p.claim) end
  if p.kind == 'end' then end_plan(batch, p) end
  if p.taken then take_grants(batch.grants, p) end
  if p.recall then remember(batch.prefix, p.recall, p.now) end
  if p.kept then keep_entries(batch.prefix, p.kept) end
  if p.sum then add_to_sums(batch.events, p.now, p.sum[1].series, p.sum[1].figures) end
  for _, one in ipairs(p.failure or NOTHING) do count_failure(batch.events, p.now, one.series, one.failure) end
  for _, one in ipairs(p.probe or NOTHING) do note_probe(batch.events, p.now, one.series, one.news) end
end

-- Commits one plan. Returns its result, and whether it was made.
local function commit_plan(batch, args, p)
  local refused = refusal(batch, p)
  if refused then return refused, false end
  local changed = p.kind ~= 'look'
  if changed and not batch.base then count_changes(batch) end
  if changed and batch.rolled_back then return 'rolled back', false end
  local entries, odd = add_specs(batch.steps, p.start or NOTHING)
  if not entries then return 'error ERR planner commit: ' .. odd .. ' is not a stream', false end
  write_plan(batch, args, p, changed)
  if p.ended then end_attempts(batch, p) end
  if p.start then start_attempts(batch, p, entries) end
  if p.wake and p.kind ~= 'end' then set_timer(batch.timers, p) end
  if p.log then many('RPUSH', p.key .. ':log', args, p, p.log) end
  if p.event then tell_events(batch, args, p) end
  if p.used then gather_used(batch.used, p.used) end
  if p.memory then
    batch.now = p.now
    gather_records(batch.memory, p.memory)
  end
  write_beside(batch, p)
  for _, one in ipairs(p.ack or NOTHING) do put_entry(batch.acks, batch.prefix .. one.stream, one.entry) end
  if not changed then return 'ok', true end
  batch.count = batch.count + 1
  local result = string.format('%d', batch.base + batch.count)
  for n = 1, #entries do result = result .. ' ' .. entries[n] end
  return result, true
end

-- Writes what is done once for all plans of the call.
local function finish(batch)
  if batch.base and batch.count < batch.changes then
    redis.call('HINCRBY', batch.commits, batch.field, batch.count - batch.changes)
  end
  local leases = {}
  for lease in pairs(batch.leases) do leases[#leases + 1] = lease end
  if #leases > 0 then redis.call('DEL', unpack(leases)) end
  keep_used(batch.prefix, batch.used)
  keep_work(batch.worked)
  keep_records(batch.prefix, batch.now, batch.memory)
  remove_entries('controllers', batch.specs)
  remove_entries('planner', batch.acks)
end

local function commit(keys, args)
  local prefix = string.sub(keys[1], 1, -8) -- without 'commits'
  local batch = {
    prefix = prefix, steps = prefix .. 'steps:', claims = prefix .. 'claims', commits = keys[1], events = keys[2],
    timers = keys[3], scopes = keys[4], plans = keys[5], tenants = keys[6], grants = keys[7], field = args[1],
    known = tonumber(args[2]), heard = args[3], cap = args[4], max_queue = tonumber(args[5]), retention = args[6],
    changes = 0, count = 0, layouts = {}, rooms = {}, refused = {}, specs = {}, acks = {}, leases = {}, used = {}, worked = {}, memory = {},
  }
  local plans = read_plans(batch, args)
  if not plans then return redis.error_reply('ERR planner commit: the plans do not add up to the arguments') end
  local results = {}
  for n = 1, #plans do
    local p, done, result, made = plans[n], true, 'stale', false -- what rests on a change that was not made is not
    if p.wrong then
      result = 'error ERR planner commit: ' .. p.wrong
    elseif not batch.refused[p.id] then
      done, result, made = pcall(commit_plan, batch, args, p)
      if not done then result = 'error ' .. tostring(type(result) == 'table' and result.err or result) end
    end
    if not (done and made) then batch.refused[p.id] = true end
    results[n] = result
  end
  finish(batch)
  return {args[7] == '1' and now_ms() or 0, results}
end

redis.register_function{function_name = 'planner_commit', callback = commit, flags = {'allow-oom'}}
