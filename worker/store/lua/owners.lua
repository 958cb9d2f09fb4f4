-- Which worker owns a partition, and which workers there are. A lease spares work and guards nothing: the version of a
-- plan is the fence. The clock is the server's.

local FRESH = 1000 -- ms for which a lease is not renewed: every look would be a write

-- KEYS 1 workers | ARGV 1 token of a worker, 2 ms for which it counts as there, 3 1 where it leaves, else 0
-- Returns {token, ...} of the workers that are there
local function register(keys, args)
  local now = now_ms()
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', string.format('(%.0f', now - args[2]))
  redis.call('ZREMRANGEBYSCORE', keys[1], string.format('(%.0f', now), '+inf') -- from before the clock was set back
  if args[3] == '1' then
    redis.call('ZREM', keys[1], args[1])
  else
    redis.call('ZADD', keys[1], string.format('%.0f', now), args[1])
  end
  return redis.call('ZRANGE', keys[1], 0, -1)
end

-- KEYS 1 owner of a partition | ARGV 1 token of a worker, 2 ms that a lease lasts, 3 what it does: `look` renews its own
-- lease, `take` also takes one that is free, `give` gives its own back
-- Returns whose lease it is then, '' where nobody's
local function own(keys, args)
  local holder = redis.call('GET', keys[1])
  local left = holder and redis.call('PTTL', keys[1])
  if holder and (left < 0 or left > tonumber(args[2])) then holder = false end -- from before the clock was set back
  if holder == args[1] and args[3] == 'give' then
    redis.call('DEL', keys[1])
    return ''
  end
  if holder == args[1] and left > args[2] - FRESH then return holder end
  if holder == args[1] or not holder and args[3] == 'take' then
    redis.call('SET', keys[1], args[1], 'PX', args[2])
    return args[1]
  end
  return holder or ''
end

redis.register_function{function_name = 'planner_register', callback = register, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_own', callback = own, flags = {'allow-oom'}}
