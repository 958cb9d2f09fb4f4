-- What is written beside the commits. Functions, so that they pass on a server whose memory is full: it must be
-- possible to empty it.

-- KEYS 1 stream | ARGV 1 cap ('' for none), 2.. fields and values. Returns the entry
local function add(keys, args)
  if args[1] == '' then return redis.call('XADD', keys[1], '*', unpack(args, 2)) end
  return redis.call('XADD', keys[1], 'MAXLEN', '~', args[1], '*', unpack(args, 2))
end

local MOST_COMMANDS = 1000 -- that wait on a server that is full

-- KEYS 1 stream of commands | ARGV 1 the command, 2.. further fields and values. For a server that is full: commands end what fills it. Returns the entry
local function publish_command(keys, args)
  if redis.call('XLEN', keys[1]) >= MOST_COMMANDS then
    return redis.error_reply('OOM the memory is full, and ' .. MOST_COMMANDS .. ' commands wait')
  end
  return redis.call('XADD', keys[1], '*', 'data', unpack(args))
end

-- KEYS 1 stream | ARGV 1 group, made at the beginning of the stream, with the stream
local function make_group(keys, args)
  return redis.call('XGROUP', 'CREATE', keys[1], args[1], '0', 'MKSTREAM')
end

local MEASURES = 16      -- of a dead stream, while what is added to it makes up its cap in bytes once
local TARGET = 7 / 8     -- of the cap: what a stream that is over it is cut to
local LARGEST = 131072   -- bytes that an entry of a dead stream takes at most

-- Bytes that a stream takes. Where the server does not say, as many as it may take.
local function bytes_of(stream)
  local bytes = redis.pcall('MEMORY', 'USAGE', stream, 'SAMPLES', 0)
  if type(bytes) == 'number' then return bytes end
  return redis.call('XLEN', stream) * LARGEST
end

-- Deletes the oldest entries of a stream, but never the last one, until it takes at most so many bytes. They may differ
-- in size, so the stream is measured again after each eighth.
local function cut(stream, bytes)
  local length = redis.call('XLEN', stream)
  while length > 1 and bytes_of(stream) > bytes do
    length = length - math.max(1, math.floor(length / 8))
    redis.call('XTRIM', stream, 'MAXLEN', '=', length)
  end
end

-- KEYS 1 stream, 2 its dead stream, 3 the counters beside it
-- ARGV 1 group, 2 entry, 3 cap in entries, 4 cap in bytes, 5.. fields and values
-- One act, so that an entry is never in neither. The dead stream stays about below both caps. It is not measured every
-- time: `dead_room` counts down what may be added before it is.
local function dead_letter(keys, args)
  local size = 0
  for i = 5, #args do size = size + #args[i] end
  redis.call('XADD', keys[2], 'MAXLEN', '~', args[3], '*', unpack(args, 5))
  redis.call('XACK', keys[1], args[1], args[2])
  redis.call('XDEL', keys[1], args[2])
  if redis.call('HINCRBY', keys[3], 'dead_room', -size) > 0 then return end
  local cap = tonumber(args[4])
  if bytes_of(keys[2]) > cap then cut(keys[2], cap * TARGET) end
  local room = math.min(cap - bytes_of(keys[2]), cap / MEASURES)
  redis.call('HSET', keys[3], 'dead_room', string.format('%.0f', math.max(room, 0)))
end

-- KEYS 1 a dead stream, 2 the counters beside it | ARGV 1 the counter, 2.. entries. Returns how many were deleted
local function drop_dead(keys, args)
  local gone = redis.call('XDEL', keys[1], unpack(args, 2))
  redis.call('HINCRBY', keys[2], args[1], gone)
  return gone
end

local MOST_COUNTERS = 1000    -- of a hash; producers invent names of queues
local SAMPLE = 8              -- counters that are compared
local QUEUE = '^queue:'
local OTHERS = 'other_queues' -- counts of queues that have no counter any more

-- Makes room for one more queue: the least of some queues goes, and its count is added to OTHERS
local function forget_queue(counters)
  local some = redis.call('HRANDFIELD', counters, SAMPLE, 'WITHVALUES')
  local name, least
  for i = 1, #some, 2 do
    local value = tonumber(some[i + 1])
    if string.find(some[i], QUEUE) and (not least or value < least) then name, least = some[i], value end
  end
  if name then
    redis.call('HDEL', counters, name)
    redis.call('HINCRBY', counters, OTHERS, string.format('%d', least))
  end
end

-- KEYS 1 hash of counters | ARGV name, amount, ... Returns the last counter
-- If the hash has MOST_COUNTERS, a new queue takes the place of a queue with a small count
local function count(keys, args)
  local last
  for i = 1, #args, 2 do
    if string.find(args[i], QUEUE) and redis.call('HLEN', keys[1]) >= MOST_COUNTERS
      and redis.call('HEXISTS', keys[1], args[i]) == 0 then
      forget_queue(keys[1])
    end
    last = redis.call('HINCRBY', keys[1], args[i], args[i + 1])
  end
  return last
end

-- KEYS 1 timers | ARGV 1 when, ms, 2 1 if never later than they are looked at anyway, else 0, 3.. plans
-- Returns how many plans that are
local function remind(keys, args)
  for i = 3, #args do
    if args[2] == '1' then
      redis.call('ZADD', keys[1], 'LT', args[1], args[i])
    else
      redis.call('ZADD', keys[1], args[1], args[i])
    end
  end
  return #args - 2
end

-- KEYS 1 what a day has granted to a scope | ARGV 1 the day's budget, 2 tokens wanted, 3 seconds until the key goes
-- Returns the tokens granted, at most what is left of the day's budget and what it was topped up by
local function grant(keys, args)
  local h = redis.call('HMGET', keys[1], 'granted', 'extra')
  local left = args[1] + (h[2] or 0) - (h[1] or 0)
  local given = math.max(0, math.min(left, args[2]))
  redis.call('HINCRBY', keys[1], 'granted', string.format('%d', given))
  redis.call('EXPIRE', keys[1], args[3])
  return given
end

-- KEYS 1 what a day has granted to a scope | ARGV 1 id of the command, 2 tokens, 3 seconds until the key goes
local function top_up(keys, args)
  if redis.call('HSETNX', keys[1], 'command:' .. args[1], args[2]) == 1 then
    redis.call('HINCRBY', keys[1], 'extra', args[2])
  end
  redis.call('EXPIRE', keys[1], args[3])
end

-- KEYS 1 grants | ARGV 1 scope, 2 day, 3 tokens to add, 4 whether the day has no more (0|1)
local function refill(keys, args)
  local day, left = string.match(redis.call('HGET', keys[1], args[1]) or '', '^(%d+) (-?%d+)')
  if day ~= args[2] then left = 0 end
  redis.call('HSET', keys[1], args[1], string.format('%s %d %s', args[2], left + args[3], args[4]))
end

-- KEYS 1 scopes | ARGV 1 how many records are lifted, then their names, then name, record, ... of those that hold
-- Counts the command: what was decided before it and is not written yet, is decided again. Returns how many were lifted
local function pause_scope(keys, args)
  local lifted = 0
  for i = 2, args[1] + 1 do lifted = lifted + redis.call('HDEL', keys[1], args[i]) end
  for i = args[1] + 2, #args, 2 do redis.call('HSET', keys[1], args[i], args[i + 1]) end
  redis.call('HINCRBY', keys[1], 'commands', 1)
  return lifted
end

local LONGEST_HOLD = 60000 -- ms; a lock with more left is from before the clock was set back

-- KEYS 1 lock | ARGV 1 token, 2 ms from now for which it is held (0: given back). Returns 1 if it is ours, else 0
local function hold_lock(keys, args)
  local holder = redis.call('GET', keys[1])
  if holder and holder ~= args[1] and redis.call('PTTL', keys[1]) <= LONGEST_HOLD then return 0 end
  if args[2] == '0' then
    redis.call('DEL', keys[1])
  else
    redis.call('SET', keys[1], args[1], 'PX', args[2])
  end
  return 1
end

-- KEYS 1 what is known | ARGV 1 value, 2 seconds until it is forgotten
local function remember(keys, args)
  redis.call('SET', keys[1], args[1], 'EX', args[2])
end

-- KEYS 1 a goal's record | ARGV 1 plan, 2 digest of the body, 3 seconds until it is forgotten, 4 'once' for a goal that
-- is never sent again
-- Makes the record unless there is one. That of goals that could not be read has `errors`, and gives its place, but not
-- to the same goal.
-- Returns {plan, verdict, digest} as they stand there. Refused by a server whose memory is full
local function claim_goal(keys, args)
  local h = redis.call('HMGET', keys[1], 'plan_id', 'verdict', 'digest', 'errors')
  if h[1] and h[2] and h[3] and not h[4] then return {h[1], h[2], h[3]} end
  if h[2] and args[4] == 'once' then return {h[1] or '', h[2], h[3] or args[2]} end
  redis.call('DEL', keys[1])
  redis.call('HSET', keys[1], 'plan_id', args[1], 'verdict', 'PENDING', 'reason', '', 'digest', args[2])
  redis.call('EXPIRE', keys[1], args[3])
  return {args[1], 'PENDING', args[2]}
end

-- KEYS 1 a goal's record | ARGV 1 reason, 2 errors, 3 seconds until it is forgotten, 4 its plan ('' for none)
-- Records why a goal could not be read, or not be planned: unless there is a record, or where that waits for this plan.
-- Returns 1 if it is written, else 0. Refused by a server whose memory is full
local function refuse_goal(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then
    if redis.pcall('HGET', keys[1], 'plan_id') ~= args[4] then return 0 end
    if redis.call('HGET', keys[1], 'verdict') ~= 'PENDING' then return 0 end
    redis.call('HDEL', keys[1], 'digest')
  end
  redis.call('HSET', keys[1], 'verdict', 'REJECTED', 'reason', args[1], 'errors', args[2])
  redis.call('EXPIRE', keys[1], args[3])
  return 1
end

-- Whether the record is of the goal that this plan was made for. Somebody may have put another type there.
local function is_of(record, plan) return redis.pcall('HGET', record, 'plan_id') == plan end

-- KEYS 1 a goal's record | ARGV 1 plan, 2 verdict, 3 reason, 4 seconds until it is forgotten,
-- 5.. the verdicts that it may take the place of
-- One that has expired stays gone; one that tells the plan's end goes with the plan. Returns 1 if it is written, else 0
local function settle_goal(keys, args)
  local key = keys[1]
  local stands = is_of(key, args[1]) and redis.call('HGET', key, 'verdict')
  for i = 5, #args do
    if stands == args[i] then
      redis.call('HSET', key, 'verdict', args[2], 'reason', args[3])
      if redis.call('HEXISTS', key, 'ended_at') == 0 then redis.call('EXPIRE', key, args[4]) end
      return 1
    end
  end
  return 0
end

-- KEYS 1 a goal's record | ARGV 1 plan, 2 seconds until its keys go, 3.. fields and values about its end
-- Returns 1 if there is such a record, else 0
local function conclude_goal(keys, args)
  if not is_of(keys[1], args[1]) then return 0 end
  redis.call('HSET', keys[1], unpack(args, 3))
  redis.call('EXPIRE', keys[1], args[2])
  return 1
end

local MAX_RETRIES = 4000 -- bytes of the ids of plans that one plan was retried by

-- KEYS 1 plan | ARGV 1 a plan that retries it. Kept as long as the plan; each once. Returns 1 if it is there, else 0
local function note_retry(keys, args)
  if redis.call('HEXISTS', keys[1], 'version') == 0 then return 0 end
  local known = redis.call('HGET', keys[1], 'retried_by') or ''
  if not string.find(known, args[1], 1, true) and #known < MAX_RETRIES then
    redis.call('HSET', keys[1], 'retried_by', known == '' and args[1] or known .. ' ' .. args[1])
  end
  return 1
end

local SPENT = -2 ^ 52 -- makes every commit of an epoch that is over look like one of older data

-- Compares what a worker knows of the commits with what the server has counted; begins a new epoch if it has lost some.
-- KEYS 1 commits | ARGV 1 epoch, 2 highest number that the worker knows of, 3 a name for the data if they have none
-- Returns {name of the data, epoch, commits counted, number after which commits were lost, -1 for none}
local function epoch(keys, args)
  local known_epoch, known = tonumber(args[1]), tonumber(args[2])
  redis.call('HSETNX', keys[1], 'born', args[3])
  local now = tonumber(redis.call('HGET', keys[1], 'epoch') or 0)
  local counted = tonumber(redis.call('HGET', keys[1], 'n:' .. now) or 0)
  if now < known_epoch or (now == known_epoch and counted < known) then
    local fresh = math.max(now, known_epoch) + 1
    redis.call('HSET', keys[1], 'epoch', fresh, 'base:' .. fresh, counted, 'n:' .. fresh, math.max(counted, known),
      'n:' .. now, string.format('%.0f', SPENT), 'n:' .. known_epoch, string.format('%.0f', SPENT))
    now, counted = fresh, math.max(counted, known)
  end
  local base = -1
  for each = known_epoch + 1, now do
    local lost = tonumber(redis.call('HGET', keys[1], 'base:' .. each) or -1)
    if lost >= 0 and (base < 0 or lost < base) then base = lost end
  end
  return {redis.call('HGET', keys[1], 'born'), now, counted, base}
end

redis.register_function{function_name = 'planner_add', callback = add, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_publish_command', callback = publish_command, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_make_group', callback = make_group, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_dead_letter', callback = dead_letter, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_drop_dead', callback = drop_dead, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_count', callback = count, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_remind', callback = remind, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_grant', callback = grant, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_top_up', callback = top_up, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_refill', callback = refill, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_pause_scope', callback = pause_scope, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_hold_lock', callback = hold_lock, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_remember', callback = remember, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_settle_goal', callback = settle_goal, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_conclude_goal', callback = conclude_goal, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_note_retry', callback = note_retry, flags = {'allow-oom'}}
redis.register_function('planner_claim_goal', claim_goal)
redis.register_function('planner_refuse_goal', refuse_goal)
redis.register_function{function_name = 'planner_epoch', callback = epoch, flags = {'allow-oom'}}
