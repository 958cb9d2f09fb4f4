-- Goals of tenants that take turns (start-time fair queueing): an entry that waits stays in the stream, pending with a
-- consumer of its own, and its id stands in a list of its tenant. Keys beside the stream, all made here:
-- <turns> zset: tenant -> when it has its next turn, in turns of a tenant of weight 1
-- <turns>:of:<tenant> list: the entries of a tenant that wait
-- <turns>:after hash: tenant -> when it could have its next turn, of those that wait for nothing at the moment
-- <turns>:now: when the last turn was

local function list_of(turns, tenant) return turns .. ':of:' .. tenant end

local function time_of(turns) return tonumber(redis.call('GET', turns .. ':now') or 0) end

-- KEYS 1 stream, 2 turns | ARGV 1 group, 2 who waits, 3.. entry, tenant, ...
-- Has entries wait that the caller has read; one that was acknowledged meanwhile does not
local function wait(keys, args)
  for i = 3, #args, 2 do
    local entry, tenant = args[i], args[i + 1]
    if #redis.call('XCLAIM', keys[1], args[1], args[2], 0, entry, 'JUSTID') > 0 then
      redis.call('RPUSH', list_of(keys[2], tenant), entry)
      if not redis.call('ZSCORE', keys[2], tenant) then
        local after = tonumber(redis.call('HGET', keys[2] .. ':after', tenant) or 0)
        redis.call('HDEL', keys[2] .. ':after', tenant)
        redis.call('ZADD', keys[2], math.max(after, time_of(keys[2])), tenant)
      end
    end
  end
end

-- Counts the turn of a tenant, whose list was taken from
local function advance(turns, tenant, at, weight)
  redis.call('SET', turns .. ':now', string.format('%.17g', at))
  local after = at + 1 / weight
  if redis.call('EXISTS', list_of(turns, tenant)) == 1 then
    redis.call('ZADD', turns, after, tenant)
    return
  end
  redis.call('ZREM', turns, tenant)
  redis.call('HSET', turns .. ':after', tenant, string.format('%.17g', after))
  if redis.call('EXISTS', turns) == 0 then redis.call('DEL', turns .. ':after', turns .. ':now') end
end

-- The weights of tenants among `args`, from `first` on: tenant, weight, ...
local function weights_of(args, first)
  local weights = {}
  for i = first, #args, 2 do weights[args[i]] = tonumber(args[i + 1]) end
  return weights
end

-- Takes the entry whose turn it is, as XCLAIM returns it; false where none waits.
local function next_entry(keys, args, weights)
  local stream, turns, group, waiting, taker = keys[1], keys[2], args[1], args[2], args[3]
  while true do
    local next = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
    if #next == 0 then return false end
    local tenant, at = next[1], tonumber(next[2])
    local entry = redis.call('LPOP', list_of(turns, tenant))
    if not entry then
      redis.call('ZREM', turns, tenant)
    else
      local pending = redis.call('XPENDING', stream, group, entry, entry, 1)
      local found = {}
      if #pending == 1 and pending[1][2] == waiting then -- else another has taken it over
        found = redis.call('XCLAIM', stream, group, taker, 0, entry)
      end
      advance(turns, tenant, at, weights[tenant] or 1)
      if #found > 0 and found[1] then return found[1] end
    end
  end
end

-- KEYS 1 stream, 2 turns | ARGV 1 group, 2 who waits, 3 who takes, 4 at most so many, 5 none after so many bytes,
-- 6.. tenant, weight, ... of those not of weight 1
-- Returns the entries of the next turns, in their order
local function take_some(keys, args)
  local weights, taken, bytes = weights_of(args, 6), {}, 0
  while #taken < tonumber(args[4]) and bytes < tonumber(args[5]) do
    local entry = next_entry(keys, args, weights)
    if not entry then break end
    taken[#taken + 1] = entry
    for _, part in ipairs(entry[2]) do bytes = bytes + #part end
  end
  return taken
end

-- KEYS 1 stream, 2 turns | ARGV 1 group, 2 who waits, 3 who takes, 4 idle ms, 5 at most so many
-- As XAUTOCLAIM, but what waits for its turn is left alone. Returns how many entries were taken
local function take_over(keys, args)
  local stream, group, waiting = keys[1], args[1], redis.call('EXISTS', keys[2]) == 1 and args[2]
  local first, taken = '-', 0
  while taken < tonumber(args[5]) do
    local page = redis.call('XPENDING', stream, group, 'IDLE', args[4], first, '+', 1000)
    for _, one in ipairs(page) do
      if one[2] ~= waiting and taken < tonumber(args[5]) then
        taken = taken + #redis.call('XCLAIM', stream, group, args[3], args[4], one[1], 'JUSTID')
      end
    end
    if #page < 1000 then break end
    first = '(' .. page[#page][1]
  end
  return taken
end

redis.register_function{function_name = 'planner_wait_turn', callback = wait, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_take_turns', callback = take_some, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_take_over', callback = take_over, flags = {'allow-oom'}}
