-- KEYS 1 plan, 2 steps, 3 status, 4 ready, 5 active, 6 todo, 7 log, 8 timers, 9 events, 10 plans, 11 grants,
--      12 commits, 13 tenants, 14 scopes, 15.. streams and leases, which the sections name by their place in KEYS
-- ARGV 1 plan id, 2 expected version (0: the plan must not exist), 3 lock token, 4 changed (0|1), 5 now,
--      6 seconds until the keys of an ended plan go (0: not ended), 7 cap of the events, 8 log line ('' for none),
--      9 when the plan's timer runs out ('' to leave it, 0 for never),
--      10 the field that counts the commits, 11 the highest number that this worker knows of,
--      12 how many specs a queue takes, 13 the plan's tenant where it begins or ends,
--      14 how many commands this partition had heard of when it was decided ('' if that does not matter),
--      15.. the number of entries of each section of SECTIONS, then the sections
-- The lists of plans that it changes are no arguments: see lists.lua.
-- Returns the commit's number, with the entries of the specs where there are any ({number, entry, ...}), 'ok' where only entries were
-- acknowledged, 'stale' (another worker changed first what this rests on), 'claimed' (the same of claims on files),
-- 'gone', 'rolled back' (the data are older than this worker knows them), 'full <queue>', or an
-- error; with any but the first two nothing was written
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
  2, -- 13 action: lease place, what planner_heartbeat answers from now on
  3, -- 14 taken: scope, tokens, what was left when it was decided ('' if that does not matter)
  4, -- 15 recall: place, field, what it was when it was decided ('' if that does not matter), change ('' drops it)
  1, -- 16 list: name                                       all lists that the plan is in from now on; none: as it was
  5, -- 17 kept: place, field, value ('' drops it), how many fields there are at most, or of what is dropped the plan
     --          that has put it (a number where that does not matter), seconds kept
  2, -- 18 sum: series, figures                             of a plan that ends: what it adds to the sums; see sums.lua
  5, -- 19 claim: place, file, what it rests on, claim, where it goes; see file_claims.lua
  2, -- 20 failure: series, failure                         what the breaker of a repository counts; see failures.lua
  2, -- 21 probe: series, news                              what became of the step that it let through
}
local FIRST_COUNT = 15
local FIRST_ITEM = FIRST_COUNT + #SECTIONS
local PARTS = {'', ':steps', ':status', ':ready', ':active', ':todo', ':log'} -- what the keys of a plan end with
local CANCEL_KEPT = 3600    -- s; longer than any controller waits between two heartbeats
local FORGET_AFTER = 60     -- s after the keys of an ended plan have gone: then its place in plans goes too
local CONFIRM_AFTER = 5000  -- ms after the end of a plan: by then its goal's record has been told, or is told again
local MAX_UNPACK = 4000    -- arguments of one command, below what Lua's stack takes
local RECALLED = 1000      -- fields of what plans of one kind and repository leave to the next
local RECALL_KEPT = 180 * 86400 -- s without such a plan
local OUTBOX_CAP = 100000  -- entries of the outbox, about: who has endpoints and no worker that delivers must not fill it
local TOLD_OUTSIDE = {     -- by event: the callback that tells of it. Each once a commit
  ['dev.planner.plan.completed.v1'] = 'plan.completed',
  ['dev.planner.plan.halted.v1'] = 'plan.halted',
  ['dev.planner.plan.rejected.v1'] = 'plan.rejected',
  ['dev.planner.plan.input_requested.v1'] = 'plan.input_requested',
  ['dev.planner.repository.paused.v1'] = 'repository.paused',
  ['dev.planner.step.approval_requested.v1'] = 'plan.input_requested',
}

-- Finds where each section starts, and puts the keys where their places stand. Checks what could fail later before the
-- first write, since a script keeps what it wrote: the number of arguments, and that every place names a key. Making a
-- number of a string is dear, so it is done once for each, and not where a section is empty.
local function parse(keys, args)
  local at, first = FIRST_ITEM, {}
  for i, size in ipairs(SECTIONS) do
    local count = args[FIRST_COUNT + i - 1]
    first[i] = at
    if count ~= '0' then at = at + (tonumber(count) or 0) * size end
  end
  first[#SECTIONS + 1] = at
  if at ~= #args + 1 then return nil, 'the sections do not add up to the arguments' end
  for i = first[6], first[7] - 1, 5 do
    args[i + 1], args[i + 3] = keys[tonumber(args[i + 1])], keys[tonumber(args[i + 3])]
    if not (args[i + 1] and args[i + 3]) then return nil, 'ended: no such place' end
  end
  for i = first[7], first[8] - 1, 8 do
    args[i + 1], args[i + 2] = keys[tonumber(args[i + 1])], keys[tonumber(args[i + 2])]
    if not (args[i + 1] and args[i + 2]) then return nil, 'start: no such place' end
  end
  for i = first[11], first[12] - 1, 2 do
    args[i] = keys[tonumber(args[i])]
    if not args[i] then return nil, 'ack: no such place' end
  end
  for i = first[12], first[14] - 1, 2 do
    args[i] = keys[tonumber(args[i])]
    if not args[i] then return nil, 'guard or action: no such place' end
  end
  for i = first[15], first[16] - 1, 4 do
    args[i] = keys[tonumber(args[i])]
    if not args[i] then return nil, 'recall: no such place' end
  end
  for i = first[17], first[18] - 1, 5 do
    args[i] = keys[tonumber(args[i])]
    if not args[i] then return nil, 'kept: no such place' end
  end
  for i = first[19], first[20] - 1, OF_CLAIM do
    args[i] = keys[tonumber(args[i])]
    if not args[i] then return nil, 'claim: no such place' end
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

-- Whether a grant has less than a decision rested on, and too little for it.
local function is_short(keys, args, first, today)
  for i = first[14], first[15] - 1, 3 do
    if args[i + 2] ~= '' then
      local left = grant_of(redis.call('HGET', keys[11], args[i]), today)
      if left ~= tonumber(args[i + 2]) and left < tonumber(args[i + 1]) then return true end
    end
  end
  return false
end

-- The first queue that has no room for what is to be added to it.
local function full_queue(args, first)
  local wanted = {}
  for i = first[7], first[8] - 1, 8 do wanted[args[i + 1]] = (wanted[args[i + 1]] or 0) + 1 end
  for queue, count in pairs(wanted) do
    local length = redis.pcall('XLEN', queue)
    if type(length) == 'number' and length + count > tonumber(args[12]) then return queue end
  end
end

-- Why nothing may be written: another worker was faster with what this decision rests on, or there is no room.
local function refusal(keys, args, first, today)
  local version = redis.call('HGET', keys[1], 'version')
  if (version or '0') ~= args[2] then return version and 'stale' or 'gone' end
  for i = first[12], first[13] - 1, 2 do
    local renewed = redis.pcall('HGET', args[i], 'renewed')
    if number_of(renewed) ~= tonumber(args[i + 1]) then return 'stale' end
  end
  if args[4] ~= '1' then return nil end
  if args[14] ~= '' and (redis.call('HGET', keys[14], 'commands') or '0') ~= args[14] then return 'stale' end
  if is_short(keys, args, first, today) then return 'stale' end
  for i = first[15], first[16] - 1, 4 do
    if args[i + 2] ~= '' and (redis.call('HGET', args[i], args[i + 1]) or '0') ~= args[i + 2] then
      return 'stale'
    end
  end
  if is_claimed(args[1], args, first[19], first[20] - 1) then return 'claimed' end
  local full = full_queue(args, first)
  return full and 'full ' .. full
end

-- Adds the specs of the attempts that start. Returns their entries; else nil and the queue that takes none, since
-- somebody has put another type in its place.
local function add_specs(args, first)
  local entries = {}
  for i = first[7], first[8] - 1, 8 do
    local entry = add_spec(args[i + 1], args[i + 3])
    if type(entry) == 'table' then
      for j, id in ipairs(entries) do redis.call('XDEL', args[first[7] + 8 * (j - 1) + 1], id) end
      return nil, args[i + 1]
    end
    entries[#entries + 1] = entry
  end
  return entries
end

local function write_plan(keys, args, first)
  local fresh = args[4] == '1' and args[2] + 1 or redis.call('HGET', keys[1], 'version')
  if fresh then redis.call('HSET', keys[1], 'version', fresh, 'lock', '', unpack(args, first[1], first[2] - 1)) end
  if args[2] == '0' then
    redis.call('ZADD', keys[10], args[5], args[1])
    redis.call('HINCRBY', keys[13], args[13], 1)
  end
  if first[16] < first[17] then put_into_lists(keys[10], args[1], {unpack(args, first[16], first[17] - 1)}) end
  many('HSET', keys[3], args, first[2], first[3] - 1)
  many('HSET', keys[2], args, first[3], first[4] - 1)
  many('ZREM', keys[4], args, first[5], first[6] - 1)
  many('ZADD', keys[4], args, first[4], first[5] - 1)
  for i = first[8], first[9] - 1 do redis.call('LTRIM', keys[6], args[i], -1) end
  many('RPUSH', keys[6], args, first[9], first[10] - 1)
end

-- Takes attempts out of flight. Queues and leases are others' too: what somebody put in their place holds nothing.
local function end_attempts(keys, args, first)
  for i = first[6], first[7] - 1, 5 do
    local queue, entry, lease = args[i + 1], args[i + 2], args[i + 3]
    redis.call('HDEL', keys[5], args[i])
    redis.pcall('XACK', queue, 'controllers', entry)
    redis.pcall('XDEL', queue, entry)
    if args[i + 4] == '1' then -- its controller hears `cancel` from planner_heartbeat, once it asks
      redis.pcall('HSET', lease, 'action', 'cancel')
      redis.call('EXPIRE', lease, CANCEL_KEPT)
    else
      redis.call('DEL', lease)
    end
  end
end

local function start_attempts(keys, args, first, entries)
  for n, entry in ipairs(entries) do
    local i = first[7] + 8 * (n - 1)
    local lease = args[i + 2]
    redis.call('HSET', keys[5], args[i], entry .. ' ' .. args[i + 7])
    if args[i + 4] ~= '1' then redis.call('DEL', lease) end -- that of a cancelled attempt is still there
    redis.pcall('HSET', lease, 'attempt', args[i + 4], 'lease', args[i + 5], 'tokens', args[i + 6])
  end
  for i = first[13], first[14] - 1, 2 do redis.pcall('HSET', args[i], 'action', args[i + 1]) end
end

local function set_timer(keys, args)
  if args[9] == '0' then
    local left = redis.call('PTTL', keys[1]) -- the timer of an ended plan is that of being forgotten
    if left > 0 then
      redis.call('ZADD', keys[8], args[5] + left + FORGET_AFTER * 1000, args[1])
    else
      redis.call('ZREM', keys[8], args[1])
    end
  elseif args[9] ~= '' then
    redis.call('ZADD', keys[8], args[9], args[1])
  end
end

-- Puts what callbacks are to tell into the outbox, where there is anybody to be told. Its keys are no arguments, since
-- few commits need them: they lie beside the events.
local function put_into_outbox(events, plan, id, now, what)
  local outbox = string.gsub(events, 'events$', 'outbox')
  if redis.call('EXISTS', outbox .. ':open') == 0 then return end
  local h = redis.call('HMGET', plan, 'state', 'head', 'callback')
  redis.call('XADD', outbox, 'MAXLEN', '~', OUTBOX_CAP, '*', 'type', what, 'plan', id, 'at', now,
    'state', h[1] or '', 'head', h[2] or '{}', 'callback', h[3] or '')
end

-- Tells what happened, and acknowledges what it was told of.
local function tell(keys, args, first)
  local told
  if args[8] ~= '' then redis.call('RPUSH', keys[7], args[8]) end
  for i = first[10], first[11] - 1, 2 do
    redis.call('XADD', keys[9], 'MAXLEN', '~', args[7], '*', 'type', args[i], 'data', args[i + 1])
    local what = TOLD_OUTSIDE[args[i]]
    if what and what ~= told then
      told = what
      put_into_outbox(keys[9], keys[1], args[1], args[5], what)
    end
  end
  for i = first[11], first[12] - 1, 2 do
    redis.call('XACK', args[i], 'planner', args[i + 1])
    redis.call('XDEL', args[i], args[i + 1])
  end
end

-- Has the keys of a plan that ended at `now` go after so many seconds, and takes it off the plans of its tenant.
local function end_plan(plan, timers, tenants, id, tenant, now, seconds)
  for _, part in ipairs(PARTS) do redis.call('EXPIRE', plan .. part, seconds) end
  release_files(timers, id, now)
  if redis.call('HINCRBY', tenants, tenant, -1) <= 0 then redis.call('HDEL', tenants, tenant) end
  redis.call('ZADD', timers, now + CONFIRM_AFTER, id) -- its goal's record lies in another slot: see goal_record
end

local function take_grants(keys, args, first, today)
  for i = first[14], first[15] - 1, 3 do
    local value = redis.call('HGET', keys[11], args[i])
    if tonumber(string.match(value or '', '^%d+') or 0) <= today then -- else midnight came before this commit
      local left, over = grant_of(value, today)
      redis.call('HSET', keys[11], args[i], string.format('%d %d %s', today, left - args[i + 1], over))
    end
  end
end

local function remember(args, first)
  for i = first[15], first[16] - 1, 4 do
    local key, field = args[i], args[i + 1]
    if args[i + 3] == '' then
      redis.call('HDEL', key, field)
    elseif redis.call('HEXISTS', key, field) == 1 or redis.call('HLEN', key) < RECALLED then
      redis.call('HINCRBY', key, field, args[i + 3])
      redis.call('EXPIRE', key, RECALL_KEPT)
    end
  end
end

-- Whether a value is what another plan has put there than the one that is named, if one is.
local function is_anothers(value, plan)
  if tonumber(plan) then return false end
  local read, found = pcall(cjson.decode, value)
  return read and type(found) == 'table' and found.plan_id and found.plan_id ~= plan
end

-- Keeps what plans of a repository remember for each other: the field that was first put goes first where there are too
-- many. The list of the fields in their order lies beside the hash.
local function keep_entries(args, first)
  for i = first[17], first[18] - 1, 5 do
    local key, field, most = args[i], args[i + 1], args[i + 3]
    local order = key .. ':order'
    if args[i + 2] == '' then
      local value = redis.call('HGET', key, field)
      if value and not is_anothers(value, most) then
        redis.call('HDEL', key, field)
        redis.call('LREM', order, 1, field)
      end
    else
      if redis.call('HSET', key, field, args[i + 2]) == 1 then redis.call('RPUSH', order, field) end
      for _ = tonumber(most) + 1, redis.call('LLEN', order) do redis.call('HDEL', key, redis.call('LPOP', order)) end
      redis.call('EXPIRE', key, args[i + 4])
      redis.call('EXPIRE', order, args[i + 4])
    end
  end
end

local function commit(keys, args)
  local first, bad = parse(keys, args)
  if not first then return redis.error_reply('ERR planner commit: ' .. bad) end
  local changed, today = args[4] == '1', math.floor(args[5] / DAY)
  local refused = refusal(keys, args, first, today)
  if refused then return refused end
  local number = 'ok'
  if changed then
    number = redis.call('HINCRBY', keys[12], args[10], 1)
    if number <= tonumber(args[11]) then
      redis.call('HINCRBY', keys[12], args[10], -1)
      return 'rolled back'
    end
  end
  local entries, odd = add_specs(args, first)
  if not entries then
    if changed then redis.call('HINCRBY', keys[12], args[10], -1) end
    return redis.error_reply('ERR planner commit: ' .. odd .. ' is not a stream')
  end
  write_plan(keys, args, first)
  end_attempts(keys, args, first)
  start_attempts(keys, args, first, entries)
  set_timer(keys, args)
  tell(keys, args, first)
  if changed then claim_files(keys[8], args[1], args[5], args, first[19], first[20] - 1) end
  if args[6] ~= '0' then end_plan(keys[1], keys[8], keys[13], args[1], args[13], args[5], args[6]) end
  take_grants(keys, args, first, today)
  remember(args, first)
  keep_entries(args, first)
  if first[18] < first[19] then add_to_sums(keys[9], args[5], args[first[18]], args[first[18] + 1]) end
  for i = first[20], first[21] - 1, 2 do count_failure(keys[9], args[5], args[i], args[i + 1]) end
  if first[21] < first[22] then note_probe(keys[9], args[5], args[first[21]], args[first[21] + 1]) end
  if #entries > 0 then return {number, unpack(entries)} end
  return number
end

redis.register_function{function_name = 'planner_commit', callback = commit, flags = {'allow-oom'}}
