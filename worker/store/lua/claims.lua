-- What gateways do with steps that they read for controllers who have no Redis.

-- KEYS 1 what a claim's id stands for | ARGV 1 token of who asks for it, 2 seconds until it is forgotten, 3 the steps
-- that are given, as a JSON list, '' where it begins, 4 1 to begin anew whatever was given, else 0
-- Who asks last has the claim. Returns what stands there then: a token, or the steps that were given
local function claim_id(keys, args)
  local known = redis.call('GET', keys[1])
  if args[3] == '' then
    if known and string.sub(known, 1, 1) == '[' and args[4] ~= '1' then return known end
  elseif known ~= args[1] then
    return known or ''
  end
  local value = args[3] == '' and args[1] or args[3]
  redis.call('SET', keys[1], value, 'EX', args[2])
  return value
end

-- KEYS 1 lease, 2 outcomes | ARGV 1 attempt, 2 lease, 3 token of the claim whose answer could not be written, '' where
-- nobody has claimed it, 4 the outcome
-- Has nobody hold the attempt from now on, so that whoever had claimed it is not counted, and reports it. One act: an
-- attempt that nobody can claim and nobody reports would last until its deadline. Not where another claim was
-- answered with it since, of another controller or of the same one that asked again.
-- Returns 1 if that was done, else 0
local function undeliver(keys, args)
  local h = redis.call('HMGET', keys[1], 'attempt', 'lease', 'controller', 'claim')
  if h[1] ~= args[1] or h[2] ~= args[2] or (h[3] and h[4] ~= args[3]) then return 0 end
  local t = redis.call('TIME')
  local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  redis.call('HSET', keys[1], 'controller', '', 'claimed', now, 'renewed', now)
  redis.call('XADD', keys[2], '*', 'data', args[4])
  return 1
end

redis.register_function{function_name = 'planner_claim_id', callback = claim_id, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_undeliver', callback = undeliver, flags = {'allow-oom'}}
