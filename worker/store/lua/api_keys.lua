-- API keys of the gateway: who owns which queue, two secrets during a rotation, token buckets.

-- Whether a key that has not expired is of this tenant ('' for keys of all tenants) and names this queue
local function is_named(index, prefix, queue, tenant)
  for _, id in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    local h = redis.call('HMGET', prefix .. id, 'tenant', 'queues')
    if h[1] == tenant and h[2] and string.find(' ' .. h[2] .. ' ', ' ' .. queue .. ' ', 1, true) then return true end
  end
  return false
end

-- KEYS 1 keys by the time at which they expire, 2 owners of queues
-- ARGV 1 what the name of a key's hash begins with, 2 id, 3 record, 4 digest of the secret, 5 now, ms, 6 when it
-- expires, ms ('' for never), 7 tenant ('' for all), 8.. queues, without those that are always shared
-- The first key that names a queue makes it its tenant's, or shared where it has none, for as long as such a key is
-- there. Returns {} or {queue, owner}: the queue of another tenant, and nothing is written.
-- Refused by a server whose memory is full
local function add_key(keys, args)
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', args[5])
  local tenant, taken = args[7], {}
  for i = 8, #args do
    local owner = redis.call('HGET', keys[2], args[i])
    if not owner or owner ~= tenant and not is_named(keys[1], args[1], args[i], owner) then
      taken[#taken + 1] = args[i]
    elseif owner ~= '' and tenant ~= '' and owner ~= tenant then
      return {args[i], owner}
    end
  end
  for _, queue in ipairs(taken) do redis.call('HSET', keys[2], queue, tenant) end
  local place = args[1] .. args[2]
  redis.call('HSET', place, 'key', args[3], 'secret', args[4], 'tenant', tenant, 'queues', table.concat(args, ' ', 8))
  if args[6] ~= '' then redis.call('PEXPIREAT', place, args[6]) end
  redis.call('ZADD', keys[1], args[6] == '' and '+inf' or args[6], args[2])
  return {}
end

-- KEYS 1 a key, 2 its older secret | ARGV 1 digest of its new secret, 2 ms for which the one before it counts beside it
-- Returns 1, or 0 where there is no such key
local function rotate_key(keys, args)
  local before = redis.call('HGET', keys[1], 'secret')
  if not before then return 0 end
  redis.call('DEL', keys[2])
  if args[2] ~= '0' then redis.call('SET', keys[2], before, 'PX', args[2]) end
  redis.call('HSET', keys[1], 'secret', args[1])
  return 1
end

-- KEYS 1 a token bucket | ARGV 1 how many requests it holds, 2 ms in which it fills
-- Takes one. Returns 0, or the ms until there is one
local function take(keys, args)
  local most, period = tonumber(args[1]), tonumber(args[2])
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local h = redis.call('HMGET', keys[1], 'left', 'at')
  local passed = math.max(0, now - (h[2] or now)) -- none where the clock was set back
  local left = math.min(most, (h[1] or most) + passed * most / period)
  local wait = left < 1 and math.ceil((1 - left) * period / most) or 0
  if wait == 0 then left = left - 1 end
  redis.call('HSET', keys[1], 'left', string.format('%.6f', left), 'at', string.format('%.0f', now))
  redis.call('PEXPIRE', keys[1], period) -- full by then, which is what a bucket is that is not there
  return wait
end

redis.register_function('planner_add_key', add_key)
redis.register_function{function_name = 'planner_rotate_key', callback = rotate_key, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_take_token', callback = take, flags = {'allow-oom'}}
