-- Callbacks: a delivery for each endpoint that is to hear of an entry of the outbox, until it has. Every key of a call
-- lies in one cluster slot; those of one endpoint or delivery are named by that of all, so they are no arguments.
--
-- planner:{p}:outbox                   stream  type, plan, at, state, head, callback; see outbox.lua
-- planner:{p}:callbacks                zset    <endpoint> -> when its next delivery is due, ms
-- planner:{p}:callbacks:due:<endpoint> zset    <delivery> -> when its next try is due, or until when a worker has it
-- planner:{p}:callbacks:of:<endpoint>  zset    <delivery> -> when it was made, the newest MOST_SHOWN
-- planner:{p}:callbacks:one:<delivery> hash    about (JSON), tries, log (JSON), ended ('' while it is under way),
--                                              leased (until when a worker has it)

local MOST_SHOWN = 1000
local MOST_ENDED = 1000   -- deliveries of an endpoint that are ended by one call

local function ms(number) return string.format('%.0f', number) end

-- Says when the next delivery of an endpoint is due.
local function set_next(callbacks, endpoint)
  local first = redis.call('ZRANGE', callbacks .. ':due:' .. endpoint, 0, 0, 'WITHSCORES')
  if first[1] then
    redis.call('ZADD', callbacks, first[2], endpoint)
  else
    redis.call('ZREM', callbacks, endpoint)
  end
end

-- Forgets the oldest deliveries of an endpoint that has very many, but those that are under way.
local function forget_oldest(callbacks, of)
  for _, id in ipairs(redis.call('ZRANGE', of, 0, -MOST_SHOWN - 1)) do
    redis.call('ZREM', of, id)
    local one = callbacks .. ':one:' .. id
    if redis.call('HGET', one, 'ended') ~= '' then redis.call('DEL', one) end
  end
end

-- KEYS 1 outbox, 2 callbacks | ARGV 1 entry, 2 seconds that deliveries are kept, then endpoint, delivery, about, ended, ...
-- Takes an entry out of the outbox and makes its deliveries, once. The group on the outbox has no readers: it tells the
-- pollers how far it is worked off. Returns 1, or 0 where another worker has done it
local function fan_out(keys, args)
  if redis.call('XDEL', keys[1], args[1]) == 0 then return 0 end
  redis.pcall('XGROUP', 'SETID', keys[1], 'planner', args[1])
  local now = now_ms()
  for i = 3, #args, 4 do
    local endpoint, id, one, of = args[i], args[i + 1], keys[2] .. ':one:' .. args[i + 1], keys[2] .. ':of:' .. args[i]
    redis.call('HSET', one, 'about', args[i + 2], 'tries', 0, 'log', '[]', 'ended', args[i + 3], 'leased', 0)
    redis.call('EXPIRE', one, args[2])
    redis.call('ZADD', of, ms(now), id)
    forget_oldest(keys[2], of)
    redis.call('EXPIRE', of, args[2])
    if args[i + 3] == '' then
      redis.call('ZADD', keys[2] .. ':due:' .. endpoint, ms(now), id)
      set_next(keys[2], endpoint)
    end
  end
  return 1
end

-- KEYS 1 callbacks | ARGV 1 endpoint, 2 ms for which it is leased
-- Leases the delivery of an endpoint that is due first: who does not say in time what became of it loses it to others.
-- Returns {delivery, until, about, tries, log}, or nothing
local function lease(keys, args)
  local due, now = keys[1] .. ':due:' .. args[1], now_ms()
  local found
  repeat
    local id = redis.call('ZRANGE', due, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, 1)[1]
    if not id then break end
    local one = keys[1] .. ':one:' .. id
    local h = redis.call('HMGET', one, 'about', 'tries', 'log')
    if h[1] then
      local till = ms(now + args[2])
      redis.call('ZADD', due, till, id)
      redis.call('HSET', one, 'leased', till)
      found = {id, till, h[1], h[2], h[3]}
    else
      redis.call('ZREM', due, id) -- it was too old
    end
  until found
  set_next(keys[1], args[1])
  return found
end

-- KEYS 1 callbacks | ARGV 1 endpoint, 2 delivery, 3 until when it was leased, 4 ms until its next try, 5 why it has ended
-- ('' if not), 6 tries, 7 log. Returns 1, or 0 where it was leased to another meanwhile, or ended
local function note(keys, args)
  local due, one = keys[1] .. ':due:' .. args[1], keys[1] .. ':one:' .. args[2]
  if tonumber(redis.call('ZSCORE', due, args[2]) or 0) ~= tonumber(args[3]) then return 0 end
  if redis.call('EXISTS', one) == 1 then
    redis.call('HSET', one, 'tries', args[6], 'log', args[7], 'ended', args[5], 'leased', 0)
  end
  if args[5] == '' then
    redis.call('ZADD', due, ms(now_ms() + args[4]), args[2])
  else
    redis.call('ZREM', due, args[2])
  end
  set_next(keys[1], args[1])
  return 1
end

-- KEYS 1 callbacks | ARGV 1 endpoint, 2 why. Ends what is under way to an endpoint that is to hear nothing more.
-- Returns how many deliveries that were
local function finish(keys, args)
  local due = keys[1] .. ':due:' .. args[1]
  local ids = redis.call('ZRANGE', due, 0, MOST_ENDED - 1)
  for _, id in ipairs(ids) do
    local one = keys[1] .. ':one:' .. id
    if redis.call('EXISTS', one) == 1 then redis.call('HSET', one, 'ended', args[2], 'leased', 0) end
    redis.call('ZREM', due, id)
  end
  set_next(keys[1], args[1])
  return #ids
end

-- KEYS 1 callbacks | ARGV 1 endpoint, 2 seconds that they are kept from now on, 3.. deliveries
-- Has deliveries tried at once, as if for the first time; not what a worker has in hand. Returns how many those are
local function again(keys, args)
  local due, now, count = keys[1] .. ':due:' .. args[1], now_ms(), 0
  for i = 3, #args do
    local one = keys[1] .. ':one:' .. args[i]
    local leased = redis.call('HGET', one, 'leased')
    if leased and tonumber(leased) <= now then
      redis.call('HSET', one, 'tries', 0, 'ended', '')
      redis.call('EXPIRE', one, args[2])
      redis.call('EXPIRE', keys[1] .. ':of:' .. args[1], args[2])
      redis.call('ZADD', due, ms(now), args[i])
      count = count + 1
    end
  end
  set_next(keys[1], args[1])
  return count
end

redis.register_function{function_name = 'planner_fan_out', callback = fan_out, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_lease_callback', callback = lease, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_note_try', callback = note, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_end_callbacks', callback = finish, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_call_again', callback = again, flags = {'allow-oom'}}
