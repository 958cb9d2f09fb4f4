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

local function own_one(key, token, lease, act)
  local holder = redis.call('GET', key)
  local left = holder and redis.call('PTTL', key)
  if holder and (left < 0 or left > lease) then holder = false end -- from before the clock was set back
  if holder == token and act == 'give' then
    redis.call('DEL', key)
    return ''
  end
  if holder == token and left > lease - FRESH then return holder end
  if holder == token or not holder and act == 'take' then
    redis.call('SET', key, token, 'PX', lease)
    return token
  end
  return holder or ''
end

-- KEYS owners of partitions | ARGV 1 token of a worker, 2 ms that a lease lasts, then what it does about each: `look`
-- renews its own lease, `take` also takes one that is free, `give` gives its own back
-- Returns whose lease each is then, '' where nobody's
local function own(keys, args)
  local found = {}
  for i, key in ipairs(keys) do
    local read, holder = pcall(own_one, key, args[1], tonumber(args[2]), args[i + 2])
    found[i] = read and holder or '' -- a key of another type has no owner
  end
  return found
end

redis.register_function{function_name = 'planner_register', callback = register, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_own', callback = own, flags = {'allow-oom'}}
